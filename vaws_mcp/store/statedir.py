"""Where ``.vaws-local`` lies."""

import os
import subprocess
from pathlib import Path

NAME = ".vaws-local"


def find_state_dir() -> Path:
    """Return the state directory: ``VAWS_STATE_DIR``, else at the root of the primary git worktree, else here.

    It is not created here: reading must not leave anything behind.
    """
    named = os.environ.get("VAWS_STATE_DIR")
    if named:
        return Path(named).expanduser().absolute()
    return (_primary_worktree() or Path.cwd()) / NAME


def _primary_worktree() -> Path | None:
    """Return the root of the primary worktree of the repository around the current directory, if there is one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        mark = folder / ".git"
        if mark.is_dir():
            return folder  # the primary worktree itself: no need to ask git
        if mark.is_file():
            return _worktree_by_git(folder)
    return None


def _worktree_by_git(folder: Path) -> Path | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), "worktree", "list", "--porcelain"],
            capture_output=True,
            timeout=5,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return folder
    first = answer.stdout.decode(errors="surrogateescape").split("\n", 1)[0]
    return Path(first.removeprefix("worktree ")) if first.startswith("worktree ") else folder
