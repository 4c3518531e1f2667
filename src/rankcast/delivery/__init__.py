"""Which of the matching events does a subscriber get, and when?

A policy is a pure function `step(policy, state, candidate, now) -> (state, deliveries)` on explicit, immutable state.
"""
