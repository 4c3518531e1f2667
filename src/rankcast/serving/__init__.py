"""The subscriber side of every engine: who subscribes, what their queues hold, and what is handed over when.

`Serving` is what a hub and a broker have in common. It has no clock, no lock, no file and no callbacks.
"""
