"""Which subscriptions does an event satisfy?

`naive` is the oracle that every faster way is tested against; `explain` speaks with the oracle's own evaluator.

An `index` takes `entries` and is read by readers. It begins in plain Python and goes over to kernels when it has grown.
Then the way of a subscription is: `segments` keeps it in the delta of the newest ones and, later, as ranges of ranks in
a segment; kernels search both. The way of an event is: `encoding` or the kernel itself turns its values into ranks, and
the kernel compares ranks only. Patterns on texts that no rank can decide are verified afterwards, one by one.
"""
