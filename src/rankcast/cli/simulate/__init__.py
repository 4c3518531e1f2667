"""`rankcast simulate`."""
