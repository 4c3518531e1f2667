"""The command line: `rankcast match | explain | generate | check | demo | version`.

`main` declares the commands and their options and imports nothing heavy; each command's work is in a module of its own,
imported when the command runs. `terminal` is the only module that writes to standard output and standard error.
"""
