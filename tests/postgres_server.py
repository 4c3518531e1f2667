"""A PostgreSQL server of a test's own: a fresh folder, a unix socket in it, no port."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

ROOT = Path(__file__).parents[1]
PATIENCE = 60
SPEEDY = {"fsync": "off", "listen_addresses": "", "max_connections": "20", "shared_buffers": "16MB"}


@contextmanager
def running() -> Iterator[str]:
    """Start a server and give the URL of its database."""
    programs = subprocess.run(
        [ROOT / "scripts" / "ensure-postgres.sh", "--print-programs"], capture_output=True, text=True, check=False
    )
    assert programs.returncode == 0, programs.stderr
    folder = Path(tempfile.mkdtemp(prefix="rankcast-pg-"))  # not tmp_path: the path of a socket must be short
    account = _account()
    if account is not None:
        os.chown(folder, pwd.getpwnam(account).pw_uid, -1)
    try:
        with _server(Path(programs.stdout.strip()), folder, account):
            yield f"postgresql://tester@/postgres?host={folder}"
    finally:
        shutil.rmtree(folder)


def _account() -> str | None:
    """PostgreSQL refuses to run as root: Debian's package brings an account for it."""
    return None if os.getuid() else "postgres"


@contextmanager
def _server(programs: Path, folder: Path, account: str | None) -> Iterator[None]:
    data = folder / "data"
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"],
        user=account,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    settings = [f"-c{name}={value}" for name, value in {**SPEEDY, "unix_socket_directories": str(folder)}.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", data, *settings],
            user=account,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            _wait(process, folder)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(f"postgresql://tester@/postgres?host={folder}").close()
            return
        except psycopg.OperationalError:
            log = (folder / "log").read_text()
            assert process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.05)
