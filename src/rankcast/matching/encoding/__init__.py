"""From values to ranks: every value that an attribute may have becomes a small integer that kernels can compare.

`cuts` says where a value lies among sorted cuts, `dimensions` lays ranks out, `ranges` writes value sets as ranges of
ranks, `encoder` turns events into ranks.
"""
