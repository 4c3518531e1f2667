"""The files of a study: a page in Markdown and the pictures it shows."""

from __future__ import annotations

from pathlib import Path

from rankcast.plotting import save_picture
from rankcast_lab.studies.findings import Finding, Outcome, Settings


def write_study(outcome: Outcome, settings: Settings, folder: Path) -> list[Path]:
    """Write NAME.md, NAME.png and further pictures to a folder, which is made if need be; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, page = folder / f"{outcome.study}.png", folder / f"{outcome.study}.md"
    save_picture(outcome.draw, outcome.size, picture)
    others = [folder / f"{outcome.study}-{further.part}.png" for further in outcome.further]
    for further, path in zip(outcome.further, others, strict=True):
        save_picture(further.draw, further.size, path)
    page.write_text(page_of(outcome, settings), encoding="utf-8")
    return [page, picture, *others]


def page_of(outcome: Outcome, settings: Settings) -> str:
    """Return the page of a study."""
    movies = "" if settings.movies is None else f" --movies {settings.movies.name}"
    options = f"{' --quick' if settings.quick else ''} --seed {settings.seed}{movies}"
    lines = [
        f"# {outcome.title}",
        "",
        f"`rankcast study {outcome.study}{options}`",
        "",
        *(part for remark in outcome.remarks for part in (remark, "")),
        f"![{outcome.title}]({outcome.study}.png)",
        "",
        *(
            part
            for further in outcome.further
            for part in (f"![{further.title}]({outcome.study}-{further.part}.png)", "")
        ),
        "| quantity | published | measured | holds |",
        "|---|---|---|---|",
        *(f"| {' | '.join(cell.replace('|', '/') for cell in cells(finding))} |" for finding in outcome.findings),
    ]
    return "\n".join(lines) + "\n"


def cells(finding: Finding) -> tuple[str, str, str, str]:
    """Return a finding as people read it.

    >>> cells(Finding("deliveries, k=1", 102, 108.498, True))
    ('deliveries, k=1', '102', '108', 'yes')
    """
    verdict = {True: "yes", False: "NO", None: "-"}[finding.holds]
    return finding.quantity, number(finding.published), number(finding.measured), verdict


def number(value: float | str | None) -> str:
    """Return a number with three significant digits or more.

    >>> [number(value) for value in (None, "linear", 0.000123, 1.5, 54723.034)]
    ['-', 'linear', '0.000123', '1.5', '54,723']
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
