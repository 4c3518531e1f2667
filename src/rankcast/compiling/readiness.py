"""Has kernels ready before they are needed, and nobody wait for that.

Compiling all kernels of a package takes many seconds, and loading compiled ones some tenths of a second, most of it
importing numba. An engine that can do without kernels for a while calls

- `request()` when it starts: a thread finds out whether the kernels are compiled; if not, it has them compiled by a
  process of its own, one for all processes that share a cache; then it loads them one by one;
- `loaded()` whenever it could go over to kernels, which costs next to nothing;
- `require()` when it cannot do without them: returns when they are loaded, compiled here if need be.

Who calls none of these has each kernel loaded or compiled when it is first called.

Kernels are asked for by package. `rankcast.<package>.warming.warm_up` runs the kernels of a package on small inputs,
once for every signature; which those are is kept beside the machine code (a list of `Overload`), so that loading runs
nothing. The list is named after the source of rankcast, the processor and versions.

The thread begins after a moment: a short script is over before that, and pays nothing. It ends with the process, and at
once: it looks at every import and between kernels whether the interpreter exits. Other threads go on meanwhile, with
pauses of some 10 milliseconds, since importing numba and reading machine code are many short steps. But numba brings
some 100,000 objects, and every thread would wait for 70 milliseconds whenever Python's garbage collector goes through
all of them. So it does not while kernels are loaded, and what is there then is left out of later collections
(`gc.freeze`); `gc.unfreeze()` undoes that. The compiling process is left to finish, for who comes next; it has a low
priority, gives up after `PATIENCE`, and holds a lock that the system takes back when it dies. If it fails, that is
logged, and kernels stay unloaded.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from rankcast.compiling.cache import digest, find, keep, log, processor, sources_digest, writable

PACKAGES = ("matching", "ranking", "delivery", "covering", "placement", "spark")
"""Packages that have kernels."""

SERVING = ("matching", "ranking", "delivery")
"""Those that an engine needs."""

MOMENT = 0.5
"""Seconds that pass before the thread begins."""

POLL = 0.1
"""Seconds between looks at a process that compiles."""

BREATH = 0.002
"""Seconds between kernels that are loaded, in which other threads run alone."""

TURN = 0.001
"""Seconds (`sys.setswitchinterval`) after which a thread that wants the GIL gets it, while kernels are loaded. With the
usual 5 milliseconds a thread that is always busy has longer pauses, and the loading takes several times as long."""

PATIENCE = 1200
"""Seconds after which the process that compiles gives up."""

_wanted: dict[str, None] = {}  # in order
_done: set[str] = set()
_stop = threading.Event()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def loaded(packages: Iterable[str] = SERVING) -> bool:
    """Tell whether the kernels of some packages can be called without a wait."""
    return _done.issuperset(packages)


def request(packages: Iterable[str] = SERVING) -> None:
    """Have kernels loaded in the background, compiled first if need be. Returns at once; asking twice is harmless."""
    global _thread  # noqa: PLW0603 (one thread per process)
    with _lock:
        missing = [package for package in packages if package not in _wanted]
        _wanted.update(dict.fromkeys(missing))
        if missing and (_thread is None or not _thread.is_alive()):
            _thread = threading.Thread(target=_work, name="rankcast-kernels", daemon=True)
            _thread.start()


def require(packages: Iterable[str] = SERVING) -> None:
    """Return when kernels are loaded: those that are not compiled are compiled here, by one process at a time."""
    for package in packages:
        if package in _done:
            continue
        if writable() is None:
            warm_up(package)
            continue
        while not _load(package, breath=0):
            lock = _locked()
            if lock is None:
                _stop.wait(POLL)
                continue
            with lock:
                if not _load(package, breath=0):
                    warm_up(package)
            break


def warm_up(package: str) -> int:
    """Run the kernels of a package, which compiles those that are not compiled, and note what was run.

    Returns how many there are, counting each signature of a kernel.
    """
    import_module(f"rankcast.{package}.warming").warm_up()
    called = import_module("rankcast.compiling.dispatchers").callable_now
    start = f"rankcast.{package}."
    overloads = [overload for overload in called.values() if f"{overload.module}.".startswith(start)]
    name = _listing(package)
    keep(name, pickle.dumps(overloads), name.rpartition("-")[0], name)
    _done.add(package)
    return len(overloads)


def is_compiled(package: str) -> bool:
    """Tell whether the kernels of a package are compiled, as far as can be told without loading them."""
    return find(_listing(package)) is not None


def _listing(package: str) -> str:
    """Return the name of the file that lists the signatures of a package's kernels."""
    versions = "".join(f" {name} {version(name)}" for name in ("numba", "llvmlite", "numpy"))
    key = digest(sources_digest().encode(), sys.version.encode(), versions.encode())
    return f"{package}.{sys.implementation.cache_tag}.{processor()}-{key}.kernels"


def _load(package: str, breath: float) -> bool:
    """Load what is compiled; tells whether that was everything. Stops early when the process ends."""
    path = find(_listing(package))
    if path is None:
        return False
    _load_llvm()
    with _without_long_collections():
        import_module("rankcast.compiling.dispatchers")  # the list holds types of numba's
        for overload in pickle.loads(path.read_bytes()):
            if breath and _stop.wait(breath):
                return False
            if not overload.load():
                return False
    _done.add(package)
    return True


@contextmanager
def _without_long_collections() -> Iterator[None]:
    """Keep the garbage collector from going through everything meanwhile, and through what is there then later on."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, sys.maxsize >> 33)
    try:
        yield
    finally:
        gc.collect(1)
        gc.freeze()
        gc.set_threshold(young, middle, old)


def _load_llvm() -> None:
    """Load the library of LLVM before llvmlite does, which would hold the GIL for all of 40 milliseconds."""
    package = find_spec("llvmlite")
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder, "binding").glob("libllvmlite.*"):
            ctypes.CDLL(None).dlopen(os.fsencode(path), os.RTLD_NOW)  # a call from ctypes lets go of the GIL


def _work() -> None:
    """Load what is wanted, and have compiled what is not."""
    if _stop.wait(MOMENT):
        return
    interval, stopper = sys.getswitchinterval(), _Stopper()
    sys.meta_path.insert(0, stopper)
    sys.setswitchinterval(min(interval, TURN))
    try:
        while missing := [package for package in _wanted if package not in _done]:
            if not _load(missing[0], BREATH) and not _have_compiled(missing):
                return
    finally:
        sys.setswitchinterval(interval)
        sys.meta_path.remove(stopper)


class _Stopper(MetaPathFinder):
    """Finds no module, and ends the thread when the process ends: importing numba would hold it up."""

    def find_spec(self, *_: object) -> None:
        """Look at the next import whether to go on."""
        if _stop.is_set() and threading.current_thread() is _thread:
            raise SystemExit


def _have_compiled(packages: list[str]) -> bool:
    """Have a process compile, or wait for one that does, and load the first package; tells whether all went well."""
    if writable() is None:
        return False
    while not _stop.is_set():
        lock = _locked()
        if lock is None:
            _stop.wait(POLL)
            if _load(packages[0], BREATH):
                return True
            continue
        with lock:
            if _load(packages[0], BREATH):
                return True
            if not _compiled_apart(packages, lock.fileno()):
                return False
        if not _load(packages[0], BREATH) and not _stop.is_set():
            log.warning("kernels of %s are not loaded: they could not be kept compiled", packages[0])
            return False
    return False


def _compiled_apart(packages: list[str], lock: int) -> bool:
    """Run a process that compiles, and inherits the lock; tells whether it succeeded."""
    with tempfile.TemporaryFile(dir=writable()) as complaints:
        command = [sys.executable, "-P", "-m", "rankcast.compiling", *packages]
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=(lock,),
                start_new_session=True,  # Ctrl-C is for us
            )
        except (OSError, ValueError) as error:
            log.warning("kernels are not compiled ahead: %s cannot be run: %s", sys.executable, error)
            return False
        while process.poll() is None:
            if _stop.wait(POLL):
                process.returncode = 0  # it is left to finish, and to nobody's surprise
                return False
        if process.returncode:
            complaints.seek(0)
            last = (complaints.read().decode(errors="replace").strip().splitlines() or ["no complaint"])[-1]
            log.warning("kernels are not compiled ahead: %s ended with %s: %s", command, process.returncode, last)
        return process.returncode == 0


def _locked() -> IO[bytes] | None:
    """Return the lock of the cache, held until it is closed here and in processes that inherit it; None if it is not
    to be had now, or nothing can be written at all.
    """
    folder = writable()
    if folder is None:
        return None
    file = (folder / "compiling.lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _leave() -> None:
    """Have the thread end: it must not be within LLVM when the process tears that down."""
    _stop.set()
    if _thread is not None and _thread is not threading.current_thread():
        _thread.join()


def _begin_anew() -> None:
    """Forget the thread, which a forked process does not have; what is loaded stays."""
    global _thread, _lock, _stop
    _thread, _lock, _stop = None, threading.Lock(), threading.Event()
    _wanted.clear()


atexit.register(_leave)
os.register_at_fork(after_in_child=_begin_anew)
