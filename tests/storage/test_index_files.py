"""A folder of arrays comes back as it was saved, whole or not at all, and damage is always noticed."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from rankcast.matching.index import Index
from rankcast.matching.segments.builder import Entry
from rankcast.model.errors import InvalidFileError, RankcastError
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.storage import index_files
from rankcast.storage.index_files import (
    INDEX,
    INDEX_VERSION,
    MANIFEST,
    SavedArrays,
    load_arrays,
    load_index,
    save_arrays,
    save_index,
)

METADATA = {"attributes": ["city", "ren\u00e9", "\x00"], "count": 3}


def some_arrays(shift=0):
    return {
        "bits": np.arange(1000, dtype=np.uint64) + np.uint64(shift),
        "wide.ends": np.arange(12, dtype=np.int32).reshape(6, 2) + shift,
        "empty": np.zeros((0, 3), np.float64),
        "one": np.array(7, np.int16),
        "flags": np.array([True, False]),
    }


def save(path, shift=0, version=1):
    save_arrays(path, "test", version, METADATA, some_arrays(shift))


def load(path, **options) -> SavedArrays:
    return load_arrays(path, "test", {1, 2}, **options)


@pytest.fixture
def folder(tmp_path) -> Path:
    save(tmp_path / "index")
    return tmp_path / "index"


def file_of(folder: Path, name: str) -> Path:
    return next(folder.glob(f"*/{name}.npy"))


@pytest.mark.parametrize("verify", [True, False])
def test_arrays_and_metadata_come_back(folder, verify):
    found = load(folder, verify=verify)
    assert (found.kind, found.version, found.metadata) == ("test", 1, METADATA)
    assert found.arrays.keys() == some_arrays().keys()
    for name, array in some_arrays().items():
        assert found.arrays[name].dtype == array.dtype
        assert type(found.arrays[name]) is np.ndarray
        np.testing.assert_array_equal(found.arrays[name], array)


@given(
    arrays_of.arrays(
        st.one_of(arrays_of.integer_dtypes(), arrays_of.unsigned_integer_dtypes(), arrays_of.floating_dtypes()),
        arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    st.booleans(),
)
def test_any_array_of_numbers_comes_back(tmp_path_factory, array, transposed):
    path = tmp_path_factory.mktemp("any") / "index"
    array = array.T if transposed else array
    save_arrays(path, "test", 1, {}, {"a": array})
    found = load(path).arrays["a"]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.flags.c_contiguous
    assert found.tobytes() == array.tobytes()


def test_writing_to_a_loaded_array_leaves_the_file_alone(folder):
    load(folder).arrays["bits"][0] = 99
    assert load(folder).arrays["bits"][0] == 0


def test_a_plain_load_reads_no_data(folder):
    """The blocks of a sparse file would have to be read to be hashed; their number is all that is looked at."""
    file = file_of(folder, "bits")
    size = file.stat().st_size
    header = file.read_bytes()[:128]
    with file.open("wb") as stream:
        stream.write(header)
        stream.truncate(size)
    assert not load(folder, verify=False).arrays["bits"].any()
    with pytest.raises(InvalidFileError, match="checksum differs"):
        load(folder)


@pytest.mark.parametrize("name", ["bits", "wide.ends", "empty", "one", "flags"])
@pytest.mark.parametrize("place", [0, 7, 70, -1])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_is_noticed(folder, name, place, bit):
    file = file_of(folder, name)
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << bit
    file.write_bytes(data)
    with pytest.raises(InvalidFileError, match=rf"{name}.npy: is damaged: its checksum differs"):
        load(folder)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["bits", "empty"])
def test_a_shorter_or_longer_file_is_noticed(folder, name, verify):
    file = file_of(folder, name)
    whole = file.read_bytes()
    for data in (whole[:-1], whole[:100], whole[:3], b"", whole + b"\0"):
        file.write_bytes(data)
        with pytest.raises(InvalidFileError, match=rf"{name}.npy: is damaged: [\d,]+ bytes; expected [\d,]+"):
            load(folder, verify=verify)


def test_a_header_that_differs_from_the_manifest_is_noticed_without_hashing(folder):
    file = file_of(folder, "bits")
    file.write_bytes(file.read_bytes().replace(b"<u8", b"<i8"))
    with pytest.raises(InvalidFileError, match=r"bits\.npy: is damaged: its header is not that of <u8"):
        load(folder, verify=False)


@pytest.mark.parametrize("verify", [True, False])
def test_a_missing_file_is_named(folder, verify):
    file_of(folder, "one").unlink()
    with pytest.raises(InvalidFileError, match=r"one\.npy: is missing"):
        load(folder, verify=verify)


def test_every_flipped_bit_of_the_manifest_is_noticed(folder):
    file = folder / MANIFEST
    whole = file.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << (place % 7)
        file.write_bytes(data)
        with pytest.raises(InvalidFileError, match=MANIFEST):
            load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"checksum": 1}', "[" * 100_000])
def test_a_manifest_that_is_none_is_refused(folder, text):
    (folder / MANIFEST).write_text(text)
    with pytest.raises(InvalidFileError, match=MANIFEST):
        load(folder)


def test_another_version_is_refused(folder):
    save(folder, version=2)
    assert load(folder).version == 2
    with pytest.raises(InvalidFileError, match="version 2 of test is unknown; known: 1, 3"):
        load_arrays(folder, "test", {3, 1})


def test_another_kind_is_refused(folder):
    with pytest.raises(InvalidFileError, match="holds 'test'; expected 'snapshot'"):
        load_arrays(folder, "snapshot", {1})


def test_another_layout_is_refused(folder):
    file = folder / MANIFEST
    file.write_text(json.dumps({**json.loads(file.read_text()), "layout": 2}))
    with pytest.raises(InvalidFileError, match="layout 2 is unknown; expected 1"):
        load(folder)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidFileError, match="nowhere: there is no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(InvalidFileError, match=f"has no {MANIFEST}: it is not a saved index"):
        load(tmp_path)


def test_saving_again_replaces_everything_and_keeps_what_is_mapped(folder):
    before = load(folder).arrays
    save(folder, shift=5)
    assert load(folder).arrays["bits"][0] == 5
    assert before["bits"].sum() == 999 * 500
    assert len(list(folder.iterdir())) == 2


def test_leftovers_of_an_interrupted_save_go_with_the_next_one(folder):
    leftover = folder / ("0" * 16)
    leftover.mkdir()
    (leftover / "bits.npy").write_bytes(b"half")
    (folder / f".{MANIFEST}.0123.tmp").write_bytes(b"half")
    assert load(folder).arrays["bits"][0] == 0
    save(folder, shift=1)
    assert len(list(folder.iterdir())) == 2


def test_a_save_that_fails_changes_nothing(folder, monkeypatch):
    monkeypatch.setattr(index_files, "replacing", _full_disk)
    with pytest.raises(InvalidFileError, match="cannot be written: No space left on device"):
        save(folder, shift=1)
    assert load(folder).arrays["bits"][0] == 0
    assert len(list(folder.iterdir())) == 2


def _full_disk(path):
    raise OSError(28, os.strerror(28))


def test_a_killed_saver_leaves_the_old_arrays(folder):
    """The process dies after the arrays are written, just before the manifest is replaced."""
    script = (
        "import os, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from rankcast.storage import index_files\n"
        "index_files.replacing = lambda path: os.kill(os.getpid(), 9)\n"
        "index_files.save_arrays(Path(sys.argv[1]), 'test', 1, {}, {'bits': np.ones(5)})\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, folder], check=False)
    assert ended.returncode == -9
    assert len(list(folder.iterdir())) == 3
    assert load(folder).arrays["bits"].sum() == 999 * 500
    save(folder, shift=1)
    assert len(list(folder.iterdir())) == 2


def test_readers_find_one_whole_save_while_others_save(folder):
    """Every load gets arrays of one save, never a mixture, and never an error."""
    rounds = 20

    def keep_saving(first):
        for shift in range(first, first + rounds):
            save(folder, shift)

    savers = [threading.Thread(target=keep_saving, args=(start,)) for start in (1, 1000)]
    for saver in savers:
        saver.start()
    while any(saver.is_alive() for saver in savers):
        found = load(folder).arrays
        assert found["bits"][0] == found["wide.ends"][0, 0]
    for saver in savers:
        saver.join()
    assert load(folder).arrays["bits"][0] in (rounds, 1000 + rounds - 1)
    assert len(list(folder.iterdir())) == 2


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InvalidFileError, match=f"the folder has other files and no {MANIFEST}"):
        save(tmp_path)
    with pytest.raises(InvalidFileError, match="it is not a folder"):
        save(tmp_path / "letter.txt")
    assert [entry.name for entry in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "../a", "A", "a.", ".a", "a..b", "a\n"])
def test_names_cannot_leave_the_folder(tmp_path, name):
    with pytest.raises(RankcastError, match="expected a name"):
        save_arrays(tmp_path / "index", "test", 1, {}, {name: np.zeros(1)})
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), np.zeros(1, "M8[s]"), np.zeros(1, "i4,i4")])
def test_only_numbers_are_saved(tmp_path, array):
    with pytest.raises(RankcastError, match="cannot be saved; expected numbers"):
        save_arrays(tmp_path / "index", "test", 1, {}, {"a": array})


@pytest.mark.parametrize("metadata", [{"a": float("nan")}, {"a": {1, 2}}, {"a": np.int64(1)}])
def test_metadata_is_plain_json(tmp_path, metadata):
    with pytest.raises(RankcastError, match="expected plain JSON"):
        save_arrays(tmp_path / "index", "test", 1, metadata, {})
    assert not (tmp_path / "index").exists()


def entry(number, expression):
    return Entry.of(number, Filter.of(expression))


def small_index():
    index = Index([entry(number, attr("x") < number) for number in range(100)])
    index.add(entry(200, attr("city").suffix("to") & attr("x").exists()))
    index.add(entry(201, attr("name").like("a_b%")))
    index.remove(7)
    return index


EVENTS = ({"x": 3}, {"x": 95.5, "city": "Porto"}, {"name": "axbc"}, {})


@pytest.mark.parametrize("verify", [True, False])
def test_an_index_comes_back_with_its_delta_and_without_what_was_removed(tmp_path, verify):
    index = small_index()
    save_index(tmp_path / "index", index.snapshot)
    loaded = load_index(tmp_path / "index", verify=verify)
    assert len(loaded) == len(index) == 101
    for event in EVENTS:
        expected = np.sort(index.reader().match_one(event))
        np.testing.assert_array_equal(np.sort(loaded.reader().match_one(event)), expected)


def test_a_loaded_index_can_be_changed_without_changing_the_files(tmp_path):
    save_index(tmp_path / "index", small_index().snapshot)
    loaded = load_index(tmp_path / "index")
    loaded.remove(50)
    loaded.add(entry(7, attr("x") > 90))
    assert set(loaded.reader().match_one({"x": 95}).tolist()) == {7, 96, 97, 98, 99}
    again = load_index(tmp_path / "index")
    assert len(again) == 101
    assert 50 in again.reader().match_one({"x": 3})


def test_an_older_snapshot_is_saved_as_it_was(tmp_path):
    index = small_index()
    snapshot = index.snapshot
    index.remove(8)
    save_index(tmp_path / "index", snapshot)
    assert 8 in load_index(tmp_path / "index").reader().match_one({"x": 3})


def test_an_empty_index_comes_back(tmp_path):
    save_index(tmp_path / "index", Index().snapshot)
    assert len(load_index(tmp_path / "index")) == 0


def test_an_index_without_one_of_its_arrays_is_refused(tmp_path):
    save_index(tmp_path / "index", small_index().snapshot)
    saved = load_arrays(tmp_path / "index", INDEX, {INDEX_VERSION})
    rest = {name: array for name, array in saved.arrays.items() if name != "segment0.wide.bits"}
    save_arrays(tmp_path / "other", INDEX, INDEX_VERSION, saved.metadata, rest)
    with pytest.raises(InvalidFileError, match=r"array segment0\.wide\.bits is missing"):
        load_index(tmp_path / "other")


def test_an_index_of_another_version_is_refused(tmp_path):
    save_arrays(tmp_path / "index", INDEX, INDEX_VERSION + 1, {"segments": 0}, {})
    with pytest.raises(InvalidFileError, match=f"version {INDEX_VERSION + 1} of {INDEX} is unknown"):
        load_index(tmp_path / "index")
