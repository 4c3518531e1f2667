"""`rankcast place`."""
