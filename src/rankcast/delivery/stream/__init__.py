"""What streams need around queues: rows that wait for their watermark, repetitions, changes in event time, packed
state.

`shards` is the way in.
"""
