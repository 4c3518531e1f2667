"""Which demo is shown: the one on Spark, or the small one, which needs neither Spark nor Java."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rankcast.cli.streams import write_json
from rankcast.cli.terminal import console
from rankcast.model.errors import RankcastError

EVENTS, SMALL_EVENTS = 100_000, 3_000
INSTEAD = "`rankcast demo --small` does without it"


class DemoSetupError(RankcastError):
    """Something that the demo on Spark needs is not installed."""


def run_spark_demo(events: int, subscribers: int, seed: int, out: Path, *, as_json: bool) -> None:
    """Run the demo on Spark and save its pictures."""
    for package, extra in (("pyspark", "spark"), ("matplotlib", "plot")):
        if find_spec(package) is None:
            raise DemoSetupError(f"{package} is not installed: pip install 'rankcast[{extra}]'; {INSTEAD}")
    # Only now: these import what may not be there.
    from rankcast.cli.demo.figures import save_pictures  # noqa: PLC0415
    from rankcast.cli.demo.on_spark import run_on_spark  # noqa: PLC0415
    from rankcast.cli.demo.report import show  # noqa: PLC0415
    from rankcast.cli.run.session import session_of_command  # noqa: PLC0415
    from rankcast.spark.session import MINIMUM_JAVA, java_home  # noqa: PLC0415

    if java_home() is None:
        raise DemoSetupError(f"no Java {MINIMUM_JAVA} or newer found: install a JRE or set JAVA_HOME; {INSTEAD}")
    with session_of_command("local[2]") as spark:
        told = run_on_spark(spark, events, subscribers, seed, quiet=as_json)
    pictures = save_pictures(told.policies, out)
    if as_json:
        write_json(
            {
                "events": len(told.events),
                "seconds": told.seconds,
                "total": told.total.to_json(),
                "policies": [one.to_json() for one in told.policies],
                "pictures": [str(path) for path in pictures],
            }
        )
    else:
        show(console(), told, pictures)
