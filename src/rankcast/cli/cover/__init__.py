"""`rankcast cover`."""
