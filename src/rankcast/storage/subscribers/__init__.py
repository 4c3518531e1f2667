"""Subscriber files: YAML and JSON of one documented shape."""
