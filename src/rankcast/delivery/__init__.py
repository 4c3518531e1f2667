"""Which of the matching events does a subscriber get, and when?

`rules` has the definition: pure functions on immutable queues. `engine` does the same for very many queues, as one
table, by kernels; `stream` is what streams need around it: lateness, repetitions, shards.
"""
