"""Immutable sets of subscriptions that kernels search, the newest ones beside them, and how both are kept up.

`compiled_index` is the way in for changes, `compiled_reader` for events, and `search` is the kernel. A `segment` has
the arrays that `tables` declares and is made in `building`, of filters or of other segments. `bitmap_index` and
`cell_index` are the two ways in which its rows are found; `plan` decides which row is found by which.
"""
