"""Atomic writing: the old file or the new one, whole."""

import os
import stat

import pytest

from rankcast.model.errors import InvalidFileError
from rankcast.storage.writing import replacing


def write(path, content):
    with replacing(path) as stream:
        stream.write(content)


def test_a_new_file_is_written(tmp_path):
    write(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"


def test_an_old_file_is_replaced_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_until_the_end_the_old_file_is_there(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(path):
        1 / 0  # noqa: B018
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InvalidFileError, match="cannot be written: No such file"):
        write(tmp_path / "nowhere" / "x", b"new")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_plain_file_is_not_replaced(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(InvalidFileError, match="it is not a plain file"):
        write(tmp_path / "x", b"new")
