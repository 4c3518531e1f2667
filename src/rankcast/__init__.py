"""rankcast: ranked content-based publish/subscribe."""
