"""Published experiments, run again: `rankcast study NAME`.

A study measures with rankcast's own engines what a paper reports, and puts the two side by side: rows of a quantity,
the published value or statement, the measured one, and whether it holds here; a picture; a short page. It says where
the setting differs and where the publication does not hold.

Where to look: `registry` (the studies by name), `findings` (rows and outcomes), `pages` (the files that are written),
and one module per study.
"""
