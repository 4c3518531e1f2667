"""From values to ranks: every value that an attribute may have becomes a small integer that kernels can compare.

`cuts` says where a value lies among sorted cuts, `dimensions` lays ranks out, `batches` turns events into ranks, for
which `texts` has what finds substrings.
"""
