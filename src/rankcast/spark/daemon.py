"""The process that Spark forks its Python workers from, with rankcast imported and its kernels compiled.

numba alone takes a worker a second to import, and the matching kernels some more to be read from numba's cache; forked
workers have all of it from their first event on.

Spark starts it as `python -m rankcast.spark.daemon` where `spark.python.daemon.module` says so.
"""

from __future__ import annotations

from pyspark.daemon import manager

from rankcast.spark.warming import warm_up

if __name__ == "__main__":
    warm_up(deliver=False)
    manager()
