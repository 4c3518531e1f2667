"""Atomic writing: the old file or the new one, whole."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from rankcast.model.errors import InvalidFileError
from rankcast.storage.writing import create, replacing


@pytest.fixture
def path(tmp_path):
    """An old file."""
    (tmp_path / "x").write_bytes(b"old")
    return tmp_path / "x"


def write(path, content):
    with replacing(path) as stream:
        stream.write(content)


def test_a_new_file_is_written_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("x", "link"):
        write(tmp_path / name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_an_old_file_is_there_until_the_end_and_gives_its_permissions_to_the_new_one(path):
    path.chmod(0o640)
    with replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_after_an_error_the_old_file_is_there_and_nothing_else(path):
    with pytest.raises(ZeroDivisionError), replacing(path):
        1 / 0  # noqa: B018
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InvalidFileError, match="cannot be written: No such file"):
        write(tmp_path / "nowhere" / "x", b"new")


def test_what_a_killed_process_left_is_written_over_and_gone(tmp_path, path):
    code = f"""
import os, pathlib
from rankcast.storage.writing import replacing
with replacing(pathlib.Path({str(path)!r})) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert path.read_bytes() == b"old"
    (left,) = set(tmp_path.iterdir()) - {path}
    assert left.name.startswith(".x.")
    write(path, b"new")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"new"


def test_of_those_that_make_a_file_at_once_one_does_and_nothing_else_is_left(tmp_path):
    contents = [bytes([number]) * 1000 for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda content: create(tmp_path / ("n" * 255), content), contents))
    assert made.count(True) == 1
    (found,) = tmp_path.iterdir()
    assert found.read_bytes() == contents[made.index(True)]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_plain_file_is_not_replaced(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(InvalidFileError, match="it is not a plain file"):
        write(tmp_path / "x", b"new")
