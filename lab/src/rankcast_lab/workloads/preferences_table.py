"""The table of movies that the thesis on PrefSIENA draws its events from, read from a file of the user's.

The file is CSV with a header, packed with gzip or not: columns title, year, length, rating, votes, mpaa, and one column
of 0 and 1 for every genre. Other columns are not looked at. An empty cell, or NA, is not known.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, TypeVar

from rankcast.model.errors import InvalidFileError, Problem, shown
from rankcast_lab.workloads.preferences import Film

GENRES = ("Action", "Animation", "Comedy", "Documentary", "Drama", "Romance", "Short")
NEEDED = ("title", "year", "length", "rating", "votes", "mpaa", *GENRES)
UNKNOWN = ("", "NA")
GZIP = b"\x1f\x8b"

Read = TypeVar("Read")


def read_films(path: Path) -> list[Film]:
    """Return the films of a file; raise InvalidFileError, naming the line, for one that is no such table."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP
        with gzip.open(path, "rt", encoding="utf-8", newline="") if packed else path.open(encoding="utf-8") as text:
            films = list(_films(text, path))
    except (OSError, EOFError) as error:
        raise _invalid(path, None, f"cannot be read: {error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise _invalid(path, None, f"is not CSV in UTF-8: {error}") from None
    if not films:
        raise _invalid(path, None, "has no films")
    return films


def _films(text: TextIO, path: Path) -> Iterator[Film]:
    lines = csv.reader(text)
    header = next(lines, [])
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise _invalid(path, 1, f"the header has no column {missing[0]}; expected {', '.join(NEEDED)}")
    places = {name: header.index(name) for name in NEEDED}
    for cells in lines:
        if len(cells) != len(header):
            raise _invalid(path, lines.line_num, f"{len(cells)} cells; expected {len(header)}")
        row = {name: cells[place] for name, place in places.items()}
        yield _film(row, path, lines.line_num)


def _film(row: dict[str, str], path: Path, line: int) -> Film:
    def number(name: str, read: Callable[[str], Read]) -> Read:
        try:
            return read(row[name])
        except ValueError:
            raise _invalid(path, line, f"{name}: {shown(row[name])} is not a number") from None

    return Film(
        title=row["title"],
        year=number("year", int),
        length=number("length", int),
        rating=None if row["rating"] in UNKNOWN else number("rating", float),
        votes=None if row["votes"] in UNKNOWN else number("votes", int),
        mpaa=None if row["mpaa"] in UNKNOWN else row["mpaa"],
        genre="/".join(name.lower() for name in GENRES if row[name] == "1") or None,
    )


def _invalid(path: Path, line: int | None, message: str) -> InvalidFileError:
    return InvalidFileError([Problem(str(path), line, message)])
