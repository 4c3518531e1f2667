"""Subscribers that come and go, with all limits kept at every moment."""
