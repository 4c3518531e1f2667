"""Generated inputs: realistic feeds with the subscribers that follow them (`rankcast.workloads.feeds`).

Everything here is a function of its seed: no clock, no global randomness, the same events on every machine.
"""
