"""Top-k covering: who is above whom, and which subscriptions a broker must forward."""
