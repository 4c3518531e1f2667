"""The one form in which arrays are kept and sent: a message or a file, aligned, with a checksum.

    0    magic (8 bytes), layout (4), checksum (4), size of the header (8)
    24   header: JSON with kind, version, metadata, and of each array its name, type, shape and place
         the arrays, raw, each at a multiple of 64 bytes

Kind, version and metadata are the caller's. Arrays have the byte order of the machine; types say which that is, so a
machine of the other order refuses them. Places are counted from the first multiple of 64 bytes behind the header, and
each array follows the one before it: so none overlaps another, and none lies outside.

The checksum is a CRC-32 of the header and, of each array, of the sums of its whole pages (512 words) and the bytes
behind those. It notices every change of one word, and all others but one in 2^32, with two exceptions: words of one
page that are exchanged, and what lies between arrays. 0 says that there is none. It says that nothing was damaged, not
who wrote it: whoever reads arrays from elsewhere checks what they say (`expectations`).

Cost: one copy, and one pass at the speed of memory (some 60 GB/s, where a CRC-32 of all bytes makes 4).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_type_hints

import msgspec
import numpy as np

from rankcast.arrays import Array
from rankcast.model.errors import InvalidValueError, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAGIC = b"rcarrays"
LAYOUT = 1
"""Version of this form; the version of what the arrays mean is the caller's."""

ALIGNMENT = 64
"""A line of the cache: no number lies across two, and vector units load from the start of one."""

PAGE = 4096
NO_CHECKSUM = 0
LARGEST = 2**62
"""Bytes that an array may claim: numpy refuses to describe larger ones, even if they are empty."""

_KINDS = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
TYPES = {np.dtype(kind).str: np.dtype(kind) for kind in (*_KINDS, np.float16, np.float32, np.float64)}
"""The types that arrays may have, by their names."""

Buffer: TypeAlias = bytes | bytearray | memoryview

_PREFIX = struct.Struct("<8sIIQ")
_ZEROS = bytes(ALIGNMENT)
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=LARGEST)]
_Metadata = TypeVar("_Metadata")
_Held = TypeVar("_Held")


class _Entry(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    type: str
    shape: Annotated[list[_Size], msgspec.Meta(max_length=8)]
    place: _Size


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    version: int
    metadata: dict[str, Any]
    arrays: list[_Entry]


_read_header = msgspec.json.Decoder(_Header).decode
_write_header = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Container:
    """What a message or file holds; `what` is how errors call it."""

    what: str
    metadata: Mapping[str, Any]
    arrays: Mapping[str, Array]

    def about(self, kind: type[_Metadata]) -> _Metadata:
        """Return the metadata as a type of msgspec; raise InvalidValueError where they are something else."""
        try:
            return msgspec.convert(self.metadata, kind)
        except (msgspec.ValidationError, OverflowError) as error:
            raise InvalidValueError(f"{self.what}: its metadata: {error}") from None


@lru_cache(maxsize=1024)
def _is_name(text: str) -> bool:
    return re.fullmatch(r"[a-z0-9_]+(?:\.[a-z0-9_]+)*", text) is not None


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays with a prefix to their names.

    >>> list(prefixed("w.", {"time": np.zeros(1)}))
    ['w.time']
    """
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def to_arrays(held: DataclassInstance) -> dict[str, Array]:
    """Return the arrays of a dataclass by the names of its fields, and of dataclasses within it by dotted names."""
    arrays: dict[str, Array] = {}
    for field in fields(held):
        value = getattr(held, field.name)
        is_nested = is_dataclass(value) and not isinstance(value, type)
        arrays |= prefixed(f"{field.name}.", to_arrays(value)) if is_nested else {field.name: value}
    return arrays


def from_arrays(kind: type[_Held], arrays: Mapping[str, Array]) -> _Held:
    """Return the dataclass of which `to_arrays` made these arrays."""
    given = dict[str, Any]()
    for name, part in get_type_hints(kind).items():
        is_nested = isinstance(part, type) and is_dataclass(part)
        given[name] = from_arrays(part, under(f"{name}.", arrays)) if is_nested else arrays[name]
    return kind(**given)


def pieces(
    kind: str,
    version: int,
    arrays: Mapping[str, Array],
    metadata: Mapping[str, Any] | None = None,
    *,
    checked: bool = True,
) -> list[Buffer]:
    """Return a container as pieces to be written one behind the other; arrays are not copied.

    Without `checked` it gets no checksum: for messages that are read at once, over ways that have one of their own.
    """
    entries, held, padded = list[_Entry](), list[Buffer](), list[Buffer]()
    place = 0
    for name, array in arrays.items():
        if not _is_name(name):
            raise InvalidValueError(f"array {shown(name)}: expected a name of a-z, 0-9, _ and dots between them")
        if array.dtype.str not in TYPES:
            raise InvalidValueError(f"array {name}: elements of type {array.dtype} cannot be kept; expected numbers")
        entries.append(_Entry(name, array.dtype.str, list(array.shape), place))
        held.append(_bytes_of(array))
        padding = -array.nbytes % ALIGNMENT
        padded += [held[-1], _ZEROS[:padding]]
        place += array.nbytes + padding
    try:
        header = _write_header(_Header(kind, version, dict(metadata or {}), entries))
    except (TypeError, OverflowError, ValueError) as error:
        raise InvalidValueError(f"metadata of {kind}: {error}; expected plain JSON") from None
    prefix = _PREFIX.pack(MAGIC, LAYOUT, checksum([header, *held]) if checked else NO_CHECKSUM, len(header))
    return [prefix, header, _ZEROS[: -(len(prefix) + len(header)) % ALIGNMENT], *padded[:-1]]


def pack(
    kind: str,
    version: int,
    arrays: Mapping[str, Array],
    metadata: Mapping[str, Any] | None = None,
    *,
    checked: bool = True,
) -> bytes:
    """Return a container as bytes."""
    return b"".join(pieces(kind, version, arrays, metadata, checked=checked))


def unpack(packed: Buffer, kind: str, version: int, *, verify: bool = True) -> Container:
    """Return what a container of a kind and version holds; raise InvalidValueError for anything else.

    Memory that can be written becomes the arrays' own; other bytes are copied, because numba compiles another version
    of each kernel for arrays that cannot be written. `verify=False` leaves out the checksum, so that nothing is read.
    """
    view = memoryview(packed).cast("B")
    header, start = _header(view, kind, version)
    content = bytearray(view) if view.readonly else view
    arrays: dict[str, Array] = {}
    place, end = 0, start
    for entry in header.arrays:
        size = _checked_size(kind, entry, place, arrays)
        end = start + place + size
        if end > len(view):
            raise InvalidValueError(f"{kind}: {len(view):,} bytes end within array {entry.name}")
        dtype = TYPES[entry.type]
        found = np.frombuffer(content, dtype, size // dtype.itemsize, start + place) if size else np.zeros(0, dtype)
        arrays[entry.name] = found if len(entry.shape) == 1 else found.reshape(entry.shape)
        place += size + -size % ALIGNMENT
    if len(view) != end:
        raise InvalidValueError(f"{kind}: {len(view):,} bytes; expected {end:,}")
    _, _, expected, header_size = _PREFIX.unpack_from(view)
    if verify and expected != NO_CHECKSUM:
        held = map(_bytes_of, arrays.values())
        if checksum([view[_PREFIX.size : _PREFIX.size + header_size], *held]) != expected:
            raise InvalidValueError(f"{kind}: damaged: the checksum differs")
    return Container(kind, header.metadata, arrays)


def _header(view: memoryview, kind: str, version: int) -> tuple[_Header, int]:
    """Return the header and where the arrays begin."""
    if len(view) < _PREFIX.size or view[: len(MAGIC)] != MAGIC:
        raise InvalidValueError(f"{kind}: these bytes do not begin as arrays do that rankcast has kept")
    _, layout, _, size = _PREFIX.unpack_from(view)
    if layout != LAYOUT:
        raise InvalidValueError(f"{kind}: layout {layout} is unknown; expected {LAYOUT}")
    end = _PREFIX.size + size
    if end > len(view):
        raise InvalidValueError(f"{kind}: {len(view):,} bytes end within the header; expected {size:,} bytes of it")
    try:
        header = _read_header(view[_PREFIX.size : end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValueError(f"{kind}: damaged: its header: {error}") from None
    if header.kind != kind:
        raise InvalidValueError(f"{kind}: holds {shown(header.kind)}; expected {shown(kind)}")
    if header.version != version:
        raise InvalidValueError(f"{kind}: version {shown(header.version)} is unknown; expected {version}")
    return header, min(len(view), end + -end % ALIGNMENT)


def _checked_size(kind: str, entry: _Entry, place: int, known: Mapping[str, Array]) -> int:
    """Return the bytes of an array; raise unless its name, type, shape and place can be."""
    name = entry.name
    if not _is_name(name) or name in known:
        raise InvalidValueError(f"{kind}: {shown(name)} is no name of an array, or is used twice")
    if entry.type not in TYPES:
        raise InvalidValueError(f"{kind}: array {name}: type {shown(entry.type)}; expected one of {', '.join(TYPES)}")
    itemsize, shape = TYPES[entry.type].itemsize, entry.shape
    if itemsize * (shape[0] if len(shape) == 1 else prod([max(1, side) for side in shape])) >= LARGEST:
        raise InvalidValueError(f"{kind}: array {name}: shape {shown(shape)} is larger than memory can be")
    if entry.place != place:
        raise InvalidValueError(f"{kind}: array {name}: place {entry.place:,}; expected {place:,}")
    return itemsize * prod(shape)


def checksum(parts: Iterable[Buffer]) -> int:
    """Return the checksum of some bytes; see the module."""
    found = 0
    for part in parts:
        pages = len(part) // PAGE
        if pages:
            words = np.frombuffer(part, np.uint64, pages * (PAGE // 8)).reshape(pages, -1)
            found = zlib.crc32(np.add.reduce(words, axis=1), found)
            part = memoryview(part)[pages * PAGE :]  # noqa: PLW2901
        found = zlib.crc32(part, found)
    return found


def _bytes_of(array: Array) -> Buffer:
    return np.ascontiguousarray(array).data.cast("B") if array.size else b""
