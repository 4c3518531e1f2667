"""A saved index is one file: whole or not at all, mapped and never changed, and it leads nowhere else."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from rankcast.containers.container import pack
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.model.errors import InvalidFileError
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.storage.index_files import INDEX, INDEX_VERSION, load_arrays, load_index, save_arrays, save_index


def some_arrays(shift=0):
    return {"bits": np.arange(1000, dtype=np.uint64) + np.uint64(shift), "ends": np.arange(12).reshape(6, 2) + shift}


def save(path, shift=0):
    save_arrays(path, "test", 1, some_arrays(shift), {"shift": shift})


def load(path, **options):
    return load_arrays(path, "test", 1, **options)


@pytest.fixture
def file(tmp_path):
    save(tmp_path / "index")
    return tmp_path / "index"


def test_writing_to_a_loaded_array_leaves_the_file_alone(file):
    load(file).arrays["bits"][0] = 99
    assert load(file).arrays["bits"][0] == 0


def test_a_plain_load_reads_no_data(file):
    """Blocks of zeros in the place of the data: only a reader of the data can tell."""
    whole = file.read_bytes()
    file.write_bytes(whole[:500] + bytes(len(whole) - 500))
    assert not load(file, verify=False).arrays["ends"].any()
    with pytest.raises(InvalidFileError, match="index: test: damaged: the checksum differs"):
        load(file)


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(InvalidFileError, match="nowhere: cannot be read: No such file"):
        load(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFileError, match="pipe: cannot be read: it is not a plain file"):
        load(tmp_path / "pipe")


def test_the_folder_of_an_earlier_form_is_refused(tmp_path):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "manifest.json").write_text("{}")
    with pytest.raises(InvalidFileError, match="is a folder; expected the file of a saved matching index: save it"):
        load_index(tmp_path / "index")
    with pytest.raises(InvalidFileError, match="cannot be written: it is not a plain file"):
        save(tmp_path / "index")


def test_saving_again_replaces_everything_and_keeps_what_is_mapped(file):
    before = load(file).arrays
    save(file, shift=5)
    assert load(file).arrays["bits"][0] == 5
    assert before["bits"].sum() == 999 * 500
    assert list(file.parent.iterdir()) == [file]


def test_folders_on_the_way_are_made(tmp_path):
    save(tmp_path / "a" / "b" / "index")
    assert load(tmp_path / "a" / "b" / "index").arrays["bits"][0] == 0
    with pytest.raises(InvalidFileError, match="cannot be written: "):
        save(tmp_path / "a" / "b" / "index" / "c" / "index")


def test_a_killed_saver_leaves_the_old_arrays(file):
    """The process dies after the arrays are written, just before the file is renamed."""
    script = (
        "import os, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from rankcast.storage import index_files\n"
        "Path.replace = lambda self, target: os.kill(os.getpid(), 9)\n"
        "index_files.save_arrays(Path(sys.argv[1]), 'test', 1, {'bits': np.ones(5)}, {})\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, file], check=False)
    assert ended.returncode == -9
    assert load(file).arrays["bits"].sum() == 999 * 500
    save(file, shift=1)
    assert load(file).arrays["bits"][0] == 1


def test_readers_find_one_whole_save_while_others_save(file):
    """Every load gets arrays of one save, never a mixture, and never an error."""
    rounds = 20

    def keep_saving(first):
        for shift in range(first, first + rounds):
            save(file, shift)

    savers = [threading.Thread(target=keep_saving, args=(start,)) for start in (1, 1000)]
    for saver in savers:
        saver.start()
    while any(saver.is_alive() for saver in savers):
        found = load(file)
        assert found.arrays["bits"][0] == found.arrays["ends"][0, 0] == found.metadata["shift"]
    for saver in savers:
        saver.join()
    assert load(file).arrays["bits"][0] in (rounds, 1000 + rounds - 1)
    assert list(file.parent.iterdir()) == [file]


def entry(number, expression):
    return Entry.of(number, Filter.of(expression))


def small_index():
    index = Index([entry(number, attr("x") < number) for number in range(100)])
    index.add(entry(200, attr("city").suffix("to") & attr("x").exists()))
    index.add(entry(201, attr("name").like("a_b%")))
    index.remove(7)
    return index


@pytest.fixture
def saved(tmp_path):
    save_index(tmp_path / "index", small_index().snapshot)
    return tmp_path / "index"


EVENTS = ({"x": 3}, {"x": 95.5, "city": "Porto"}, {"name": "axbc"}, {})


@pytest.mark.parametrize("verify", [True, False])
def test_an_index_comes_back_with_its_delta_and_without_what_was_removed(saved, verify):
    index, loaded = small_index(), load_index(saved, verify=verify)
    assert len(loaded) == len(index) == 101
    for event in EVENTS:
        expected = np.sort(index.reader().match_one(event))
        np.testing.assert_array_equal(np.sort(loaded.reader().match_one(event)), expected)


def test_a_loaded_index_can_be_changed_without_changing_the_file(saved):
    loaded = load_index(saved)
    loaded.remove(50)
    loaded.add(entry(7, attr("x") > 90))
    assert set(loaded.reader().match_one({"x": 95}).tolist()) == {7, 96, 97, 98, 99}
    again = load_index(saved)
    assert len(again) == 101
    assert 50 in again.reader().match_one({"x": 3})


def test_an_older_snapshot_is_saved_as_it_was_and_so_is_an_empty_one(tmp_path):
    index = small_index()
    snapshot = index.snapshot
    index.remove(8)
    save_index(tmp_path / "index", snapshot)
    assert 8 in load_index(tmp_path / "index").reader().match_one({"x": 3})
    save_index(tmp_path / "index", Index().snapshot)
    assert len(load_index(tmp_path / "index")) == 0


def test_an_index_without_one_of_its_arrays_is_refused(saved, tmp_path):
    found = load_arrays(saved, INDEX, INDEX_VERSION)
    rest = {name: array for name, array in found.arrays.items() if name != "segment0.wide.bits"}
    (tmp_path / "other").write_bytes(pack(INDEX, INDEX_VERSION, rest, found.metadata))
    with pytest.raises(InvalidFileError, match=r"other: .*segment0: segment: array wide\.bits is missing"):
        load_index(tmp_path / "other")


def test_an_index_that_has_a_number_twice_is_refused(saved, tmp_path):
    arrays = load_arrays(saved, INDEX, INDEX_VERSION).arrays
    twice = {name.replace("segment0", "segment1"): array for name, array in arrays.items()} | dict(arrays)
    save_arrays(tmp_path / "other", INDEX, INDEX_VERSION, twice, {"segments": 2})
    with pytest.raises(InvalidFileError, match="other: matching index: a subscription number is used twice"):
        load_index(tmp_path / "other")
