"""Arrays of numbers come back as they were, and what a header says is not believed."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from rankcast.containers.container import ALIGNMENT, MAGIC, PAGE, pack, prefixed, under, unpack
from rankcast.containers.expectations import Column, Range, below, check, check_starts, check_texts
from rankcast.model.errors import InvalidValueError

METADATA = {"attributes": ["city", "ren\u00e9", "\x00"], "count": 3}
PREFIX = struct.Struct("<8sIIQ")

any_array = arrays_of.arrays(
    st.one_of(
        arrays_of.integer_dtypes(endianness="="),
        arrays_of.unsigned_integer_dtypes(endianness="="),
        arrays_of.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
        arrays_of.boolean_dtypes(),
    ),
    arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@given(st.lists(any_array, max_size=4), st.booleans())
def test_any_array_of_numbers_comes_back(arrays, transposed):
    named = {f"a{at}": array.T if transposed else array for at, array in enumerate(arrays)}
    found = unpack(pack("test", 1, named, METADATA), "test", 1)
    assert found.metadata == METADATA
    assert list(found.arrays) == list(named)
    for name, array in found.arrays.items():
        assert (array.dtype, array.shape, array.tobytes()) == (
            named[name].dtype,
            named[name].shape,
            named[name].tobytes(),
        )
        assert array.flags.c_contiguous
        assert array.flags.writeable


def test_arrays_begin_at_lines_of_the_cache():
    packed = pack("test", 1, {"a": np.arange(3, dtype=np.uint8), "b": np.arange(5.0)})
    assert [packed.index(array.tobytes()) % ALIGNMENT for array in (np.arange(3, dtype=np.uint8), np.arange(5.0))] == [
        0,
        0,
    ]


def test_memory_that_can_be_written_is_not_copied():
    memory = bytearray(pack("test", 1, {"a": np.arange(3)}))
    unpack(memory, "test", 1).arrays["a"][0] = 77
    assert unpack(memory, "test", 1, verify=False).arrays["a"][0] == 77


@given(st.integers(0, 3 * PAGE - 1), st.integers(1, 255))
def test_every_changed_byte_of_an_array_is_noticed(at, change):
    packed = bytearray(pack("test", 1, {"a": np.arange(3 * PAGE, dtype=np.uint8)}))
    packed[len(packed) - 3 * PAGE + at] ^= change
    with pytest.raises(InvalidValueError, match="test: damaged: the checksum differs"):
        unpack(bytes(packed), "test", 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [("..", "expected a name"), ("a/b", "expected a name"), ("", "expected a name"), ("A", "expected a name")],
)
def test_names_that_are_none(name, message):
    with pytest.raises(InvalidValueError, match=message):
        pack("test", 1, {name: np.zeros(1)})


@pytest.mark.parametrize(
    "array", [np.array([None]), np.array(["a"]), np.zeros(1, "M8[s]"), np.zeros(1, "i4,i4"), np.zeros(1, ">i8")]
)
def test_only_plain_numbers_are_kept(array):
    with pytest.raises(InvalidValueError, match="cannot be kept; expected numbers"):
        pack("test", 1, {"a": array})


@pytest.mark.parametrize("metadata", [{"a": {1: {2}}, "b": object()}, {"a": np.int64(1)}])
def test_metadata_is_plain_json(metadata):
    with pytest.raises(InvalidValueError, match=r"metadata of test: .*; expected plain JSON"):
        pack("test", 1, {}, metadata)


def told(header, data=bytes(192)):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    prefix = PREFIX.pack(MAGIC, 1, 0, len(text))
    return prefix + text + bytes(-(len(prefix) + len(text)) % ALIGNMENT) + data


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([["../x", "<i8", [1], 0]], "'../x' is no name of an array"),
        ([["a", "<i8", [1], 0], ["a", "<i8", [1], 64]], "'a' is no name of an array, or is used twice"),
        ([["a", "|O", [1], 0]], r"array a: type '\|O'; expected one of \|b1"),
        ([["a", "<i8", [2**61, 8], 0]], "array a: shape .* is larger than memory can be"),
        ([["a", "<i8", [0, 2**61], 0]], "array a: shape .* is larger than memory can be"),
        ([["a", "<i8", [-1], 0]], "damaged: its header: Expected `int` >= 0"),
        ([["a", "<i8", [1], 0], ["b", "<i8", [1], 0]], "array b: place 0; expected 64"),
        ([["a", "<i8", [1], 64]], "array a: place 64; expected 0"),
        ([["a", "<i8", [25], 0]], r"\d+ bytes end within array a"),
        ([["a", "<i8", [1], 0]], r"\d+ bytes; expected \d+"),
        ([["a", "<i8", [1]]], "damaged: its header: .*length"),
    ],
)
def test_headers_that_lie(entries, message):
    packed = told({"kind": "test", "version": 1, "metadata": {}, "arrays": entries})
    with pytest.raises(InvalidValueError, match=f"test: .*{message}"):
        unpack(packed, "test", 1)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b"null", b"\xff", b"[" * 100_000])
def test_headers_that_are_none(text):
    with pytest.raises(InvalidValueError, match="test: damaged: its header: "):
        unpack(told(text), "test", 1)


def test_other_kinds_versions_and_layouts_are_refused():
    packed = pack("test", 1, {})
    with pytest.raises(InvalidValueError, match="other: holds 'test'; expected 'other'"):
        unpack(packed, "other", 1)
    with pytest.raises(InvalidValueError, match="test: version 1 is unknown; expected 2"):
        unpack(packed, "test", 2)
    with pytest.raises(InvalidValueError, match="test: layout 7 is unknown; expected 1"):
        unpack(packed[:8] + bytes([7]) + packed[9:], "test", 1)
    for other in (b"", b"something else", packed[:23]):
        with pytest.raises(InvalidValueError, match="test: these bytes do not begin as"):
            unpack(other, "test", 1)
    with pytest.raises(InvalidValueError, match=r"test: [\d,]+ bytes end within the header"):
        unpack(packed[:40], "test", 1)


def test_arrays_under_a_prefix():
    arrays = prefixed("w.", {"time": np.zeros(1)}) | {"time": np.ones(1)}
    found = unpack(pack("test", 1, arrays), "test", 1)
    assert {name: array.tolist() for name, array in under("w.", found.arrays).items()} == {"time": [0]}


EXPECTED = {
    "start": Column(np.int64, "rows", starts="items"),
    "item": Column(np.int32, "items", below("rows")),
    "pair": Column(np.int64, "rows", width=2, columns={1: Range(-1, 5, other=99)}),
    "number": Column(np.int64, "rows", ascends=True, is_optional=True),
    "score": Column(np.float64, "rows", is_number=True, is_optional=True),
}
GOOD = {
    "start": np.array([0, 2, 3]),
    "item": np.array([0, 1, 1], np.int32),
    "pair": np.array([[7, -1], [7, 99]]),
    "number": np.array([3, 8]),
}


def test_what_is_as_expected():
    assert check("test", GOOD, EXPECTED) == {"rows": 2, "items": 3}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"item": None}, "array item is missing"),
        ({"item": np.zeros(3)}, "array item: float64 of 1 dimensions; expected int32 of 1"),
        ({"pair": np.zeros(2, np.int64)}, "array pair: int64 of 1 dimensions; expected int64 of 2"),
        ({"pair": np.zeros((2, 3), np.int64)}, "array pair: 3 columns; expected 2"),
        ({"start": np.zeros(0, np.int64)}, "array start: 0 elements; expected 1"),
        ({"number": np.arange(3)}, "array number: 3 elements; expected 2"),
        ({"start": np.array([0, 2, 9])}, "array start: from 0 to 9; expected 0 to 3"),
        ({"start": np.array([0, 4, 3])}, "array start: descends, at 1"),
        ({"item": np.array([0, 2, 1], np.int32)}, "array item: 2 at 1; expected 0 to 1"),
        ({"item": np.array([0, 0, -1], np.int32)}, "array item: -1 at 2; expected 0 to 1"),
        ({"pair": np.array([[7, 98], [7, 99]])}, "array pair, column 1: 98 at 0; expected -1 to 4"),
        ({"number": np.array([3, 3])}, "array number: does not ascend, at 0"),
        ({"score": np.array([3, np.nan])}, "array score: is not a number, at 1"),
    ],
)
def test_what_is_not_as_expected_is_named_with_its_place(changed, message):
    arrays = {name: array for name, array in (GOOD | changed).items() if array is not None}
    with pytest.raises(InvalidValueError, match=f"test: {message}"):
        check("test", arrays, EXPECTED)


def test_starts_and_texts():
    check_texts("names", np.array([0, 2, 2, 3]), np.frombuffer("éa".encode(), np.uint8))
    for starts, data, message in (([0, 1, 3], "éa".encode(), "within a character"), ([0, 1], b"\xff", "not UTF-8")):
        with pytest.raises(InvalidValueError, match=f"names: .*{message}"):
            check_texts("names", np.array(starts), np.frombuffer(data, np.uint8))
    with pytest.raises(InvalidValueError, match="none; expected one at least"):
        check_starts("starts", np.zeros(0, np.int64), 0)
