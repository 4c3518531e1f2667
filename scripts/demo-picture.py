"""Draw docs/images/demo.svg: what `rankcast demo --small` shows in a terminal of 100 columns.

Run it from the repository's root with .venv/bin/python after the demo has changed.
"""

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "images" / "demo.svg"
FRAME = re.sub(r"@font-face\s*\{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code", "DejaVu Sans Mono"
)
"""rich's own frame, less the fonts that it would load from the web."""


def main() -> None:
    """Run the demo as in a terminal and save its picture."""
    colours = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm-256color"}
    command = [Path(sys.executable).parent / "rankcast", "demo", "--small"]
    shown = subprocess.run(command, env=colours, capture_output=True, text=True, check=True).stdout
    console = Console(record=True, width=100, file=StringIO())
    console.print(Text.from_ansi(shown))
    console.save_svg(str(TARGET), title="rankcast demo --small", code_format=FRAME)


if __name__ == "__main__":
    main()
