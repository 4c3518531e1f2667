"""Where a pipeline's outputs go: folders and databases, each batch exactly once."""
