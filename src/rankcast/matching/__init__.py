"""Which subscriptions does an event satisfy?

`naive` is the oracle that every faster way is tested against; `explain` speaks with the oracle's own evaluator.

An `index` takes `entries` and is read by `reader`s. It begins in plain Python (`few`) and goes over to kernels when it
has grown: a `compiled_index` holds segments, and deltas of the newest subscriptions (`delta`, `kernels_delta`), which
can be updated while every `compiled_reader` goes on with its `snapshots`.

The compiled way, bottom-up: `dimensions` describes rank space, into which `ranges` (subscriptions), `encoder` (columns
of events) and `kernels_search` (single events, with `texts`) translate; `rows` are conjunctions there. `plan` chooses a
kernel for every row; `wide` and `selective` build what `kernels_wide` and `kernels_selective` read, and
`kernels_search` runs both. A `segment` is all of that as named arrays, made by `builder`, `columnar` or `merging`;
`prepared` is a segment ready for kernels, which are given its arrays as one table of arguments, and a `searcher` per
thread searches it for columns of events.
"""
