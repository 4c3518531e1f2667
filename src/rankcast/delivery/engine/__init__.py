"""The columnar engine: the queues of many subscribers as one table, moved on by compiled kernels.

`queue_table` is the way in, `layout` says what the arrays mean, `kernels` has what moves them. Every queue behaves as
the one of `rankcast.delivery.rules` does, bit for bit.
"""
