"""What the tests of hubs share."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

from rankcast.model.events import Event

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEYOND_UTC = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def flat(number=1, seconds=None, **attributes):
    """Return an event; its time is so many seconds after the start."""
    return Event.of(attributes, id=str(number), source="/flats", time=None if seconds is None else at(seconds))


def got(notifications):
    return [(note.subscriber, note.event.id, note.rank) for note in notifications]


def crash(hub):
    """Leave the file as a killed process does: whatever has been written is there, and nothing is tidied up."""
    hub._journal.abandon()


def log_rows(hub):
    return list(hub._journal.log.rows(hub._journal.last - hub._journal.since))


def copied(hub):
    """A copy of the files as they are, which is what a killed process would leave."""
    log = hub._journal.log
    copy = log.path.with_name("copy.hub")
    for suffix in ("", "-wal"):
        code = "import shutil, sys; shutil.copyfile(*sys.argv[1:])"  # elsewhere: closing a file here would unlock it
        subprocess.run([sys.executable, "-c", code, f"{log.path}{suffix}", f"{copy}{suffix}"], check=True)
    return copy
