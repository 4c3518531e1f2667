"""The command `rankcast`, also as `python -m rankcast`.

Nothing else is imported before an interrupt is looked for: one that comes while a command is still being loaded ends it
like any other.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from rankcast.cli.main import app  # noqa: PLC0415 (see above)

        app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
