"""Named arrays with metadata in a folder: how a matching index is saved, and mapped into memory again.

```
folder/
  manifest.json          kind, version, metadata, generation; per array its type, shape, size and SHA-256
  3f9c2e81d4a05b67/      one generation: an .npy file per array
```

A save writes a new generation, brings it to the disk, and then replaces the manifest in one step: a reader finds the
old index or the new one, whole, whatever happens in between, and arrays it has mapped stay valid. Savers of one folder
take turns; what an interrupted one left behind goes away with the next save.

Arrays are mapped copy-on-write: nothing is read before it is used, processes on one host share the pages, and the file
cannot be changed through them. They are not marked read-only, because numba would compile (and look up, on every call)
another version of each kernel for that.

Cost of loading: with `verify`, one pass over the bytes (about 1.5 GB/s, after which they are in the page cache);
without it, one header per array. Sizes are checked either way: reading a mapped file past its end kills the process.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rankcast.arrays import Array
from rankcast.matching.few import FewSnapshot
from rankcast.matching.index import Index, Run
from rankcast.matching.segments.builder import build_segment
from rankcast.matching.segments.merging import merge_segments
from rankcast.matching.segments.segment import Segment
from rankcast.matching.segments.snapshots import Snapshot
from rankcast.model.errors import InvalidFileError, RankcastError, shown
from rankcast.storage.text_files import invalid_file, unreadable
from rankcast.storage.writing import replacing

MANIFEST = "manifest.json"
LAYOUT = 1
"""Version of this file layout; the version of what the arrays mean is the caller's."""

INDEX, INDEX_VERSION = "matching index", 1
"""Kind and version of a saved index; a change of what a segment's arrays mean takes another version."""

MAX_MANIFEST_BYTES = 256 * 1024 * 1024
RETRIES = 20
"""Times a reader starts again because the folder was saved anew under its hands."""

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_GENERATION = re.compile(r"[0-9a-f]{16}")
_KINDS_OF_NUMBER = "biuf"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class SavedArrays:
    """What a folder holds; `arrays` are mapped, not read."""

    kind: str
    version: int
    metadata: Mapping[str, Any]
    arrays: Mapping[str, Array]


def save_index(path: Path, snapshot: FewSnapshot | Snapshot) -> None:
    """Save what an index held when the snapshot was taken (`index.snapshot`); removed subscriptions are left out.

    Costs the writing of the arrays, plus a merge of each segment from which subscriptions were removed.
    """
    segments = _living_segments(snapshot)
    arrays = {
        f"segment{at}.{name}": array
        for at, segment in enumerate(segments)
        for name, array in segment.to_arrays().items()
    }
    save_arrays(path, INDEX, INDEX_VERSION, {"segments": len(segments)}, arrays)


def load_index(path: Path, *, verify: bool = True, run: Run | None = None) -> Index:
    """Return a saved index, its arrays mapped; `run` does its merges, and `verify` is as in `load_arrays`."""
    saved = load_arrays(path, INDEX, {INDEX_VERSION}, verify=verify)
    segments = []
    for at in range(saved.metadata["segments"]):
        start = f"segment{at}."
        own = {name.removeprefix(start): array for name, array in saved.arrays.items() if name.startswith(start)}
        try:
            segments.append(Segment.from_arrays(own))
        except KeyError as error:
            raise invalid_file(str(path), None, f"array {start}{error.args[0]} is missing") from None
    return Index(segments=segments, run=run)


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


def save_arrays(path: Path, kind: str, version: int, metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Save arrays (numbers or booleans) and metadata (plain JSON) in a folder, in place of what it held before.

    Raises InvalidFileError when the folder cannot be written, or holds something else than saved arrays.
    """
    for name, array in arrays.items():
        _check_array(name, array)
    document = {"layout": LAYOUT, "kind": kind, "version": version, "metadata": dict(metadata)}
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RankcastError(f"metadata of {shown(kind)}: {error}; expected plain JSON") from None
    _check_target(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            _save(path, document, arrays)
    except OSError as error:
        raise invalid_file(str(path), None, f"cannot be written: {error.strerror or error}") from None


def load_arrays(path: Path, kind: str, versions: Collection[int], *, verify: bool = True) -> SavedArrays:
    """Map the arrays of a folder; refuse what is not of this kind, of another version, missing or damaged.

    `verify=False` trusts the bytes (not their number): for a folder that this process or host has verified before.
    """
    for _ in range(RETRIES):
        manifest = _read_manifest(path, kind, versions)
        try:
            arrays = {name: _load(path, manifest, name, verify=verify) for name in manifest["arrays"]}
        except InvalidFileError:
            if _read_manifest(path, kind, versions)["generation"] == manifest["generation"]:
                raise
            continue
        return SavedArrays(kind, manifest["version"], manifest["metadata"], arrays)
    raise invalid_file(str(path), None, f"was saved anew {RETRIES} times while it was being loaded")


def _check_array(name: str, array: Array) -> None:
    if not _NAME.fullmatch(name):
        raise RankcastError(f"array {shown(name)}: expected a name of a-z, 0-9, _ and dots between them")
    if array.dtype.kind not in _KINDS_OF_NUMBER or array.dtype.fields is not None:
        raise RankcastError(f"array {name}: elements of type {array.dtype} cannot be saved; expected numbers")


def _check_target(path: Path) -> None:
    """Refuse to write beside files that are not ours; an interrupted first save leaves generations and no manifest."""
    if not path.exists():
        return
    if not path.is_dir():
        raise invalid_file(str(path), None, "cannot be written: it is not a folder")
    if not (path / MANIFEST).exists() and any(not _is_ours(entry.name) for entry in path.iterdir()):
        raise invalid_file(str(path), None, f"cannot be written: the folder has other files and no {MANIFEST}")


def _is_ours(name: str) -> bool:
    return _GENERATION.fullmatch(name) is not None or name.startswith(f".{MANIFEST}.")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one saver at a time work in a folder; the system ends the lock of a process that dies."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _save(path: Path, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    generation = secrets.token_hex(8)
    folder = path / generation
    folder.mkdir()
    try:
        entries = {name: _write_array(folder / f"{name}.npy", array) for name, array in arrays.items()}
        _sync(folder)
        _sync(path)
        manifest = {**document, "generation": generation, "arrays": entries}
        with replacing(path / MANIFEST) as stream:
            stream.write(_encoded({**manifest, "checksum": _checksum(manifest)}))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _remove_others(path, generation)


def _remove_others(path: Path, generation: str) -> None:
    """Remove older generations and leftovers; a reader that has mapped them keeps them until it is done."""
    for entry in path.iterdir():
        if entry.name == generation or not _is_ours(entry.name):
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


class _Hashing:
    """A stream that hashes and counts what passes through it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes | memoryview) -> int:
        """Pass some bytes on."""
        self.hash.update(data)
        self.size += len(data)
        return self._stream.write(data)


def _write_array(file: Path, array: Array) -> dict[str, Any]:
    array = np.asarray(array, order="C")
    with file.open("xb") as stream:
        out = _Hashing(stream)
        np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(array))
        if array.nbytes:
            out.write(array.reshape(-1).view(np.uint8).data)
        stream.flush()
        os.fsync(stream.fileno())
    return {
        "type": array.dtype.str,
        "shape": list(array.shape),
        "bytes": out.size,
        "sha256": out.hash.hexdigest(),
    }


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(_encoded(manifest)).hexdigest()


def _read_manifest(path: Path, kind: str, versions: Collection[int]) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        reason = f"has no {MANIFEST}: it is not a saved index" if path.is_dir() else "there is no such folder"
        raise invalid_file(str(path), None, reason) from None
    except OSError as error:
        raise unreadable(file, error) from None
    if len(data) > MAX_MANIFEST_BYTES:
        raise invalid_file(str(file), None, f"the file is larger than {MAX_MANIFEST_BYTES:,} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise invalid_file(str(file), None, "is damaged: not JSON") from None
    if not isinstance(document, dict) or "checksum" not in document:
        raise invalid_file(str(file), None, "is damaged or no manifest of a saved index: it has no checksum")
    _check_manifest(file, document, kind, versions)
    return document


def _check_manifest(file: Path, document: dict[str, Any], kind: str, versions: Collection[int]) -> None:
    # First the layout: a later one may compute its checksum in another way.
    if document.get("layout") != LAYOUT:
        raise invalid_file(str(file), None, f"layout {shown(document.get('layout'))} is unknown; expected {LAYOUT}")
    if document.pop("checksum") != _checksum(document):
        raise invalid_file(str(file), None, "is damaged: its checksum differs")
    if document["kind"] != kind:
        raise invalid_file(str(file), None, f"holds {shown(document['kind'])}; expected {shown(kind)}")
    if document["version"] not in versions:
        known = ", ".join(map(str, sorted(versions)))
        raise invalid_file(
            str(file), None, f"version {shown(document['version'])} of {kind} is unknown; known: {known}"
        )


def _load(path: Path, manifest: Mapping[str, Any], name: str, *, verify: bool) -> Array:
    file = path / manifest["generation"] / f"{name}.npy"
    entry = manifest["arrays"][name]
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size != entry["bytes"]:
                raise invalid_file(str(file), None, f"is damaged: {size:,} bytes; expected {entry['bytes']:,}")
            if verify and _hash_of(stream) != entry["sha256"]:
                raise invalid_file(str(file), None, "is damaged: its checksum differs")
            stream.seek(0)
            return _mapped(stream, file, entry)
    except FileNotFoundError:
        raise invalid_file(str(file), None, "is missing") from None
    except OSError as error:
        raise unreadable(file, error) from None


def _hash_of(stream: BinaryIO) -> str:
    found = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK))
    while count := stream.readinto(block):  # type: ignore[attr-defined]  # a buffered file has it
        found.update(block[:count])
    return found.hexdigest()


def _mapped(stream: BinaryIO, file: Path, entry: Mapping[str, Any]) -> Array:
    """Map the data behind the header, which must say what the manifest says."""
    shape, dtype = tuple(entry["shape"]), np.dtype(entry["type"])
    try:
        magic = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0(stream) if magic == (1, 0) else None
    except ValueError:
        header = None
    if header != (shape, False, dtype) or stream.tell() + dtype.itemsize * int(np.prod(shape)) != entry["bytes"]:
        raise invalid_file(str(file), None, f"is damaged: its header is not that of {dtype.str} {list(shape)}")
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.asarray(np.memmap(stream, dtype, "c", stream.tell(), shape))
