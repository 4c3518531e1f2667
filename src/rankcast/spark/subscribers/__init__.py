"""Subscribers that change while a stream runs: tables, versions, and which batch had which."""
