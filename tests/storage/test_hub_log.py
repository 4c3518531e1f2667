"""The file of a durable hub: what is written is there after a crash, and what is wrong with a file is said."""

import contextlib
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rankcast.model.errors import InvalidFileError
from rankcast.storage.hub_log import FORMAT, HubLog, HubLogError, LoggedState, Row, Sync


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hub.log"


@pytest.fixture
def log(path):
    log = opened(path)
    yield log
    log.close()


def opened(path, **options):
    return HubLog.open(path, about={"schema": "null"}, **options)


def rows(*numbers):
    return [Row(number, (), f'{{"x":{number}}}') for number in numbers]


def test_what_was_appended_is_there_when_the_file_is_opened_again(path, log):
    stored = [Row(1, (), '{"id":"ana"}'), Row(2, (1,), "{}"), Row(3, (1, 2), '{"x":"é"}')]
    log.append(stored[:1])
    log.append(stored[1:])
    log.close()
    with contextlib.closing(opened(path)) as again:
        assert (list(again.rows(0)), list(again.rows(2)), again.snapshot()) == (stored, stored[2:], None)


def test_a_snapshot_takes_the_place_of_the_inputs_before_it(log):
    log.append(rows(1, 2, 3))
    log.replace(LoggedState(2, b"two"))
    assert (log.snapshot(), list(log.rows(2))) == (LoggedState(2, b"two"), rows(3))
    log.replace(LoggedState(3, b"three"))
    assert (log.snapshot(), list(log.rows(0))) == (LoggedState(3, b"three"), [])


def test_a_file_keeps_what_was_said_of_it_first(path, log):
    log.close()
    with contextlib.closing(HubLog.open(path, about={"schema": "other"})) as again:
        assert again.about == {"schema": "null"}


@pytest.mark.parametrize(("sync", "expected"), [(Sync.FULL, 2), (Sync.NORMAL, 1)])
def test_sync_is_that_of_sqlite(path, sync, expected):
    with contextlib.closing(opened(path, sync=sync)) as log:
        assert log._connection.execute("PRAGMA synchronous").fetchone() == (expected,)
        assert log._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


class TestOneHubAtATime:
    def test_a_second_opening_is_refused(self, path, log):
        with pytest.raises(InvalidFileError, match=r"hub\.log: is in use: another hub has it open"):
            opened(path)
        log.append(rows(1))

    def test_another_process_is_refused_and_the_end_of_a_process_frees_the_file(self, path):
        code = (
            "import sys; from rankcast.storage.hub_log import HubLog; "
            "log = HubLog.open(sys.argv[1], about={}); print('open', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout.readline() == b"open\n"
            with pytest.raises(InvalidFileError, match="in use"):
                opened(path)
            other.kill()
            other.wait()
            opened(path).close()


def of_another_program(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE flats (rent)")


class TestFilesThatCannotBeUsed:
    @pytest.mark.parametrize(
        ("make", "problem"),
        [
            (lambda path: path.write_text("version: 1\nsubscribers: []\n" * 100), "is not the log of a hub"),
            (of_another_program, "is a database of another program"),
            (Path.mkdir, "cannot be opened: it is a folder; expected a file"),
        ],
    )
    def test_what_is_no_log_is_left_alone(self, path, make, problem):
        make(path)
        before = path.is_dir() or path.read_bytes()
        with pytest.raises(InvalidFileError, match=problem):
            opened(path)
        assert before == (path.is_dir() or path.read_bytes())

    def test_another_format(self, path, log):
        log._connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
        log.close()
        with pytest.raises(InvalidFileError, match=f"has format {FORMAT + 1}; this rankcast reads {FORMAT}"):
            opened(path)

    def test_no_such_folder(self, tmp_path):
        with pytest.raises(InvalidFileError, match=r"cannot be opened: there is no folder .*missing$"):
            opened(tmp_path / "missing" / "hub.log")

    def test_a_name_of_the_catalogue_that_is_no_text(self, path, log):
        log.close()
        data = bytearray(path.read_bytes())
        data[data.find(b"CREATE TABLE") - 1] = 0xD7
        path.write_bytes(data)
        with pytest.raises(InvalidFileError):
            opened(path)

    def test_a_damaged_page(self, path, log):
        log.append(Row(number, (), "x" * 500) for number in range(1, 200))
        log.close()
        content = bytearray(path.read_bytes())
        content[4096 * 3 : 4096 * 20] = bytes(4096 * 17)
        path.write_bytes(content)
        with pytest.raises(InvalidFileError, match="is damaged"):
            opened(path)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ("DELETE FROM inputs WHERE number = 2", "input 2 is missing"),
            ("UPDATE inputs SET body = '{}' WHERE number = 3", "input 3 is not what was written"),
            ("UPDATE inputs SET open = '7' WHERE number = 1", "input 1 is not what was written"),
        ],
    )
    def test_inputs_that_were_changed(self, log, change, problem):
        log.append(rows(1, 2, 3))
        log._connection.execute(change)
        with pytest.raises(InvalidFileError, match=problem):
            list(log.rows(0))

    @pytest.mark.parametrize("change", ["number = 2", "body = x'00'"])
    def test_a_snapshot_that_was_changed(self, log, change):
        log.replace(LoggedState(1, b"state"))
        log._connection.execute(f"UPDATE snapshots SET {change}")
        with pytest.raises(InvalidFileError, match=r"snapshot after input . is not what was written"):
            log.snapshot()


def test_a_file_that_a_crash_left_empty_is_a_new_one(path):
    path.touch()
    with contextlib.closing(opened(path)) as log:
        assert list(log.rows(0)) == []


def test_a_full_disk_fails_the_append_and_leaves_the_file_as_it_was(log):
    log.append(rows(1))
    (pages,) = log._connection.execute("PRAGMA page_count").fetchone()
    log._connection.execute(f"PRAGMA max_page_count = {pages}")
    large = Row(3, (), "x" * 100_000)
    with pytest.raises(HubLogError, match=r"hub.log: cannot be written: database or disk is full; nothing was changed"):
        log.append([*rows(2), large])
    assert list(log.rows(0)) == rows(1)
    log._connection.execute("PRAGMA max_page_count = 1000000")
    log.append([*rows(2), large])
    assert list(log.rows(2)) == [large]


def test_an_error_of_the_disk_closes_the_log_because_only_reopening_tells_what_was_written(path, log):
    log.append(rows(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(HubLogError, match="disk I/O error; the hub is closed"):
            log.append([Row(2, (), "x" * 100_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(HubLogError, match="closed"):
        log.append(rows(2))
    with contextlib.closing(opened(path)) as again:
        assert list(again.rows(0)) == rows(1)


def test_a_closed_log_cannot_be_written(log):
    log.close()
    log.close()
    with pytest.raises(HubLogError, match="closed"):
        log.append(rows(1))
