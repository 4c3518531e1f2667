"""Which subscriptions does an event satisfy?

`naive` is the oracle that every faster way is tested against; `explain` speaks with the oracle's own evaluator.
"""
