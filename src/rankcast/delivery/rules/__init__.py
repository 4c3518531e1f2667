"""The definition of every delivery policy: readable step functions on immutable queues, one event at a time.

`queues` says what a queue is and how it moves on; `arrival` and `timed` have a class for each policy; `changes` makes
queues and says what a change does to one. Tests and `explain` use them, and a hub until its kernels are loaded.
"""
