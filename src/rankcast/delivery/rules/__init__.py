"""The definition of every delivery policy: readable step functions on immutable queues, one event at a time.

`queues` says what a queue is and how it moves on; `policies` has a class for each policy, and what a change does to its
queue; `forecast` says what would become of an event. Tests and `explain` use them, and a hub until its kernels are
loaded.
"""
