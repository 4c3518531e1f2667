"""The process that Spark forks its Python workers from, with rankcast imported: numba alone takes a worker a second.

Spark starts it as `python -m rankcast.spark.daemon` where `spark.python.daemon.module` says so.
"""

from __future__ import annotations

import importlib

from pyspark.daemon import manager

_WANTED = ("pyarrow.compute", "rankcast.matching.index", "rankcast.delivery.batch", "rankcast.ranking.preferences")

if __name__ == "__main__":
    for _module in _WANTED:
        importlib.import_module(_module)
    manager()
