"""When does one filter contain another, and when do many contain one together?

`relation` answers for two filters. The rest answers for many at once, as boxes of integer ranges: `lines` gives the
places of an attribute integer labels, `boxes` turns filters into boxes and keeps them as arrays. On that stand two
branches. Top-k covering (`topk`): `order` tells who is above whom, `cover_set` which subscriptions must be forwarded,
`poset` is the graph of all of them; `specificity` finds those of many that contain others. Group cover (`group`):
`conflicts` has the tables and decisions of the paper by name, `exact_search` their kernels, `cover` asks them for
filters, and keeps active and passive subscriptions.
"""
