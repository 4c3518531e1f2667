"""Immutable sets of subscriptions that kernels search, the newest ones beside them, and how both are kept up.

`compiled_index` is the way in for changes, `compiled_reader` for events. A `segment` is made by `builder` or `merging`;
`bitmap_index` and `cell_index` are its two ways to be searched, and `plan` decides which row is found by which.
"""
