"""The command line as a file that spark-submit can run.

    spark-submit --master spark://host:7077 "$(python -m rankcast.cli.submit --path)" run --events ...

spark-submit tells a Python file by a name that ends in .py, which the installed command `rankcast` has not.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or print where this file is."""
    if sys.argv[1:] == ["--path"]:
        sys.stdout.write(f"{__file__}\n")
        return
    from rankcast.cli.main import app  # noqa: PLC0415 (nothing of it is needed for the path)

    app()


if __name__ == "__main__":
    main()
