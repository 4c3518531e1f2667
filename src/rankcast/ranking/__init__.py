"""How much does a subscriber want an event? `preferences` turns stated preferences into ranks of events.

`relevance` is the arithmetic of relevance functions and of decay. `batch` does the same as both by kernels, bit for
bit, on the arrays of `batch_table`. `diversity` selects the best that are no near-copies of each other, `audiences` the
best subscribers of an event.
"""
