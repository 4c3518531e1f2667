"""Where machine code is kept, and that it is never stale."""

import os
import shutil
import subprocess
import sys

import pytest

from rankcast.compiling import cache

OUTER = """
from rankcast.compiling import compiled
from helper import raised

@compiled
def outer(x):
    return raised(x)
"""
HELPER = """
from rankcast.compiling import inlined
from numbers_of import PLACES, STEP

@inlined
def raised(x):
    return x + STEP + PLACES[1]
"""
NUMBERS = "STEP = 1\nPLACES = (0, 0)\n"
CALL = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
from rankcast.compiling import cache
if len(sys.argv) > 1:
    cache.IN_TREE = cache.Path(sys.argv[1])
from outer import outer
found = outer(1)
from rankcast.compiling import dispatchers
print(found, dispatchers.compilations)
"""


@pytest.fixture
def kernels(tmp_path):
    """A kernel that calls one of another file, which uses a number and a tuple of a third."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "outer.py").write_text(OUTER)
    (folder / "helper.py").write_text(HELPER)
    (folder / "numbers_of.py").write_text(NUMBERS)
    return folder


@pytest.fixture(scope="module")
def compiled_before(tmp_path_factory):
    """What a first call leaves, in a folder that is not that of any test."""
    source, kept = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("kept")
    for name, text in (("outer.py", OUTER), ("helper.py", HELPER), ("numbers_of.py", NUMBERS)):
        (source / name).write_text(text)
    assert called(source, NUMBA_CACHE_DIR=str(kept))[:2] == (2, 2)
    return kept


@pytest.fixture
def kept(compiled_before, tmp_path):
    """The setting of a folder with the machine code of the kernels as they are at first: paths are no part of it."""
    shutil.copytree(compiled_before, tmp_path / "kept")
    return {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}


def called(kernels, *arguments, **settings):
    """Call the kernel in a new process; returns what it found, how many kernels were compiled, and the log."""
    environment = {**os.environ, "PYTHONPATH": str(kernels), "PYTHONDONTWRITEBYTECODE": "1", **settings}
    command = [sys.executable, "-c", CALL, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found, compilations = map(int, run.stdout.split())
    return found, compilations, run.stderr.splitlines()


def test_a_kernel_is_compiled_once_for_all_processes(kernels, kept):
    assert called(kernels, **kept)[:2] == (2, 0)


@pytest.mark.parametrize(
    ("file", "text", "found", "compiled"),
    [
        ("helper.py", HELPER.replace("x + STEP", "x - STEP"), 0, 2),
        ("numbers_of.py", NUMBERS.replace("1", "5"), 6, 2),
        ("numbers_of.py", NUMBERS.replace("(0, 0)", "(0, 7)"), 9, 2),
    ],
)
def test_a_change_in_another_file_is_noticed_and_nothing_outdated_stays(
    kernels, kept, tmp_path, file, text, found, compiled
):
    before = len(list(tmp_path.rglob("*.nbc")))
    (kernels / file).write_text(text)
    assert called(kernels, **kept)[:2] == (found, compiled)
    assert len(list(tmp_path.rglob("*.nbc"))) == before == 2


def test_a_comment_is_no_change(kernels, kept):
    (kernels / "helper.py").write_text(f"# why\n{HELPER}")
    assert called(kernels, **kept)[:2] == (2, 0)


@pytest.mark.parametrize(
    "damaged",
    [lambda content: content[:100], lambda _: b"crankcast.gone\nName\n.", lambda _: b"crankcast\nGone\n."],
    ids=["cut short", "module gone", "name gone"],
)
def test_a_damaged_file_is_compiled_again(kernels, kept, tmp_path, damaged):
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(damaged(path.read_bytes()))
    found, compiled, log = called(kernels, **kept)
    assert (found, compiled) == (2, 2)
    assert any("cannot be read, so the kernel is compiled again" in line for line in log)
    assert called(kernels, **kept)[:2] == (2, 0)


def below_a_file(tmp_path):
    """A path that nobody can make a folder of, root included."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "below"


@pytest.mark.parametrize("place", ["XDG_CACHE_HOME", "TMPDIR"])
def test_where_the_installation_is_read_only_another_folder_is_used_and_said_once(kernels, tmp_path, place):
    nowhere = below_a_file(tmp_path)
    (tmp_path / "there").mkdir(mode=0o700)
    settings = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(nowhere), place: str(tmp_path / "there")}
    found, compiled, log = called(kernels, nowhere, **settings)
    assert (found, compiled, len(log)) == (2, 2, 1)
    assert f"compiled kernels are kept in {tmp_path / 'there'}" in log[0]
    assert log[0].startswith("INFO" if place == "XDG_CACHE_HOME" else "WARNING")
    assert called(kernels, nowhere, **settings)[:2] == (2, 0)


def test_what_an_image_was_made_with_is_found_though_it_is_read_only(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "IN_TREE", tmp_path / "image")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(below_a_file(tmp_path)))
    cache.IN_TREE.mkdir()
    (cache.IN_TREE / "kept").touch()
    assert cache.find("kept") == tmp_path / "image" / "kept"


def test_where_nothing_can_be_written_that_is_said_once(tmp_path, monkeypatch, caplog):
    nowhere = below_a_file(tmp_path)
    monkeypatch.setattr(cache, "places", lambda: [nowhere])
    cache.writable.cache_clear()
    assert cache.writable() is None
    cache.keep("name", b"", "name", "name")
    assert [record.message for record in caplog.records] == [
        f"compiled kernels cannot be kept: none of {nowhere} can be written to"
    ]
    cache.writable.cache_clear()


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "places", lambda: [tmp_path])
    (tmp_path / "planted").touch()
    assert cache.find("planted") is not None
    tmp_path.chmod(0o777)
    assert cache.find("planted") is None
    cache.writable.cache_clear()
    assert cache.writable() is None
    cache.writable.cache_clear()


def test_a_global_that_cannot_be_told_apart_is_refused(tmp_path):
    (tmp_path / "odd.py").write_text(
        "from rankcast.compiling import compiled\nTABLE = (1, 'two')\n\n@compiled\ndef odd(x):\n    return TABLE[x]\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", "import odd; odd.odd(1)"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert "odd.TABLE[1] is 'two'; expected a kernel, a module, a number, a tuple or a NamedTuple" in run.stderr


def test_modules_with_kernels_do_not_import_numba():
    modules = (
        "rankcast.matching.index",
        "rankcast.delivery.stream.shards",
        "rankcast.covering.topk.poset",
        "rankcast.hub",
    )
    code = f"import sys, importlib\nfor one in {modules}: importlib.import_module(one)\nprint('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
