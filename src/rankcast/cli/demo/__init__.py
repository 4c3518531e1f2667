"""`rankcast demo`."""
