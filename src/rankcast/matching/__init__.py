"""Which subscriptions does an event satisfy?

`naive` is the oracle that every faster way is tested against; `explain` speaks with the oracle's own evaluator.

The compiled way, bottom-up: `dimensions` describes rank space, into which `ranges` (subscriptions) and `encoder`
(events) translate; `rows` are conjunctions there. `plan` chooses a kernel for every row; `wide` (`exact_wide` for few
rows) and `selective` build what `kernels_wide` and `kernels_selective` read, and `kernels_search` runs both. A
`segment` is all of that as named arrays, made by `builder`, `columnar` or `merging`; `prepared` is a segment ready for
kernels, which are given its arrays as one of the `part_tables`, and a `searcher` per thread searches it. `index` holds
segments and a `delta` that can be updated while every `reader` goes on with its `snapshots`.
"""
