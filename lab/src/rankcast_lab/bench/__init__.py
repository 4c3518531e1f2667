"""Side-by-side measurements: `rankcast bench NAME`.

A bench measures several engines on the same work in one process and one run, checks that they give the same answers,
and says for each quantity that rankcast promises whether it holds on this machine. Absolute times are the machine's;
what a report compares are times of one run.

Where to look: `registry` (the benches by name), `report` (rows, requirements, comparisons), `timing` (clocks, best of
several), `memory` (bytes of arrays), `comparing` (match sets), and per bench one module, with its engines beside it.
"""
