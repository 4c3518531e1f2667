"""`rankcast run`."""
