"""Research beside rankcast: published experiments run again, benchmarks, and the engines and workloads only they use.

A second distribution of the repository, `rankcast-lab`. It adds the commands `rankcast study` and `rankcast bench` by
the entry point group `rankcast.commands`. It may import everything of `rankcast`; rankcast never imports it.
"""
