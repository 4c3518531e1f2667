"""The commands that this distribution adds to `rankcast`: `study` and `bench`."""
