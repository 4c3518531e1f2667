"""The command line: `rankcast match | run | explain | generate | check | cover | place | simulate | demo | ...`.

`main` declares the commands and their options and imports nothing heavy; each command's work is in a module or folder
of its own, imported when the command runs. What they write goes through `output`. They put together what the packages
below have: reading is `storage`'s, and whatever can be worked out without a file or a terminal is elsewhere.
"""
