"""Other commits of this repository, made ready to be measured beside this one.

A commit gets a work tree in the repository's `.bench`, made once, with the environment that its own set-up makes.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rankcast.model.errors import RankcastError, shown

LEAKING = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables of this process's environment that must not reach another one's."""


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without those that would lead another Python to this one's packages."""
    return {name: value for name, value in os.environ.items() if name not in LEAKING}


def python_of(commit: str) -> Path:
    """Return the Python of a commit's own environment, which is set up if need be."""
    root = Path(_git(Path(__file__).parent, "rev-parse", "--show-toplevel", failed="this is no checkout of rankcast"))
    whole = _git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", failed=_missing(root, commit))
    folder = root / ".bench" / whole[:12]
    if not (folder / "scripts" / "setup.sh").exists():
        failed = f"{folder}: git could not make a work tree of {commit} there"
        _git(root, "worktree", "add", "--force", "--detach", str(folder), whole, failed=failed)
    done = subprocess.run(
        [folder / "scripts" / "setup.sh"], env=clean_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise RankcastError(f"{folder}: its set-up failed: {said[-1] if said else 'no word'}")
    return folder / ".venv" / "bin" / "python"


def _missing(root: Path, commit: str) -> str:
    is_shallow = _git(root, "rev-parse", "--is-shallow-repository", failed="git does not work here") == "true"
    hint = "; this clone is shallow: git fetch --unshallow" if is_shallow else ""
    return f"--against: there is no commit {shown(commit)} in this repository{hint}"


def _git(folder: Path, *arguments: str, failed: str) -> str:
    """Return what git says; raise RankcastError with a message when it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RankcastError("git is not installed, and --against needs it") from None
    if done.returncode:
        raise RankcastError(failed)
    return done.stdout.strip()
