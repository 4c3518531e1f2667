"""The process that Spark forks its Python workers from, with rankcast imported and its kernels compiled.

numba alone takes a worker a second to import, and the matching kernels some more to be read from numba's cache; forked
workers have all of it from their first event on.

Spark starts it as `python -m rankcast.spark.daemon` where `spark.python.daemon.module` says so.
"""

from __future__ import annotations

import importlib

from pyspark.daemon import manager

_WANTED = ("pyarrow.compute", "rankcast.spark.pipeline")


def _prepare() -> None:
    """Import what tasks need, and have the kernels ready."""
    for module in _WANTED:
        importlib.import_module(module)
    importlib.import_module("rankcast.spark.warming").warm_up_match()


if __name__ == "__main__":
    _prepare()
    manager()
