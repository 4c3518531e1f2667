"""Arrays in a file: how a matching index is saved, and mapped into memory again.

A file is one container (`rankcast.containers`). A save writes a file of another name, brings it to the disk and renames
it: a reader finds the old file or the new one, whole, whatever happens in between, and keeps what it has mapped.

Arrays are mapped copy-on-write: nothing is read before it is used, processes on one host share the pages, and the file
cannot be changed through them. They are not marked read-only, because numba would compile (and look up, on every call)
another version of each kernel for that. A file that is cut while it is mapped ends the process that reads behind its
end: replace files, do not change them.

Cost of loading: with `verify`, one pass over the bytes, at the speed of the disk; without it, the header. An index is
also checked to lead no kernel outside its arrays (`matching.segments.segment`), some 10 ms per 100,000
subscriptions, more where they have many patterns and gaps.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rankcast.arrays import Array
from rankcast.containers.container import Container, pieces, prefixed, under, unpack
from rankcast.matching.entries import FewSnapshot
from rankcast.matching.index import Index
from rankcast.matching.segments.building import build_segment, merge_segments
from rankcast.matching.segments.compiled_index import Snapshot
from rankcast.matching.segments.segment import Segment
from rankcast.model.errors import DuplicateIdError, InvalidValueError
from rankcast.storage.text_files import check_plain, invalid_file, is_folder, unreadable
from rankcast.storage.writing import replacing

INDEX, INDEX_VERSION = "matching index", 3
"""Kind and version of a saved index; a change of what a segment's arrays mean takes another version."""


class _About(msgspec.Struct):
    segments: Annotated[int, msgspec.Meta(ge=0)]


def save_index(path: Path, snapshot: FewSnapshot | Snapshot) -> None:
    """Save what an index held when the snapshot was taken (`index.snapshot`); removed subscriptions are left out.

    Costs the writing of the arrays, plus a merge of each segment from which subscriptions were removed.
    """
    save_arrays(path, INDEX, INDEX_VERSION, *index_to_arrays(snapshot))


def load_index(path: Path, *, verify: bool = True) -> Index:
    """Return a saved index, its arrays mapped; `verify` is as in `load_arrays`."""
    saved = load_arrays(path, INDEX, INDEX_VERSION, verify=verify)
    try:
        return index_from_arrays(saved)
    except InvalidValueError as error:
        raise invalid_file(str(path), None, str(error)) from None


def index_to_arrays(snapshot: FewSnapshot | Snapshot) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return what an index held as named arrays, and metadata that `index_from_arrays` needs with them."""
    segments = _living_segments(snapshot)
    arrays: dict[str, Array] = {}
    for at, segment in enumerate(segments):
        arrays |= prefixed(f"segment{at}.", segment.to_arrays())
    return arrays, {"segments": len(segments)}


def index_from_arrays(saved: Container) -> Index:
    """Return the index of named arrays; raise InvalidValueError when they are none."""
    segments = []
    for at in range(saved.about(_About).segments):
        try:
            segments.append(Segment.from_arrays(under(f"segment{at}.", saved.arrays)))
        except InvalidValueError as error:
            raise InvalidValueError(f"{saved.what}: segment{at}: {error}") from None
    try:
        return Index(segments=segments)
    except DuplicateIdError as error:
        raise InvalidValueError(f"{saved.what}: {error}") from None


def _living_segments(snapshot: FewSnapshot | Snapshot) -> list[Segment]:
    segments = []
    for part in snapshot.parts:
        alive = part.died > snapshot.sequence
        if alive.all():
            segments.append(part.segment)
        elif alive.any():
            segments.append(merge_segments([(part.segment, alive)]))
    if snapshot.delta:
        segments.append(build_segment(snapshot.delta))
    return segments


def save_arrays(path: Path, kind: str, version: int, arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> None:
    """Save arrays (numbers or booleans) and metadata (plain JSON) as a file, in place of the one that was there.

    Raises InvalidFileError when it cannot be written.
    """
    written = pieces(kind, version, arrays, metadata)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid_file(str(path), None, f"cannot be written: {error.strerror or error}") from None
    with replacing(path) as stream:
        for piece in written:
            stream.write(piece)


def load_arrays(path: Path, kind: str, version: int, *, verify: bool = True) -> Container:
    """Map the arrays of a file; raise InvalidFileError for what is not of this kind, of another version or damaged.

    `verify=False` trusts the bytes (not their number): for a file that this process or host has verified before.
    """
    if is_folder(path):
        raise invalid_file(str(path), None, f"is a folder; expected the file of a saved {kind}: save it again")
    check_plain(path)
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            mapped = memoryview(mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY) if size else b"")
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        return unpack(mapped, kind, version, verify=verify)
    except InvalidValueError as error:
        raise invalid_file(str(path), None, str(error)) from None
