"""Generated inputs: realistic feeds with the subscribers that follow them (`feeds`, `people`), and placement problems.

Everything here is a function of its seed: no clock, no global randomness, the same events on every machine.
"""
