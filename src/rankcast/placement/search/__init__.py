"""Local search: a placement in motion, moves and exchanges."""
