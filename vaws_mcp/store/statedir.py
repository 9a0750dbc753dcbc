"""Where ``.vaws-local`` lies."""

import os
import subprocess
from pathlib import Path

from vaws_mcp.core.failures import Failure

NAME = ".vaws-local"


def find_state_dir() -> Path:
    """Return ``.vaws-local`` in the directory named by ``VAWS_STATE_DIR``, else at the root of the primary worktree.

    Outside of a repository it lies in the current directory. The variable may also name ``.vaws-local`` itself.

    It is not created here: reading must not leave anything behind.

    Raises: Failure ``directory_gone`` when it would lie in a directory that was deleted.
    """
    named = os.environ.get("VAWS_STATE_DIR")
    if named:
        folder = Path(named).expanduser().absolute()
        return folder if folder.name == NAME else folder / NAME
    try:
        return (_primary_worktree() or Path.cwd()) / NAME
    except FileNotFoundError:
        raise Failure(
            "directory_gone",
            "the current directory no longer exists, so there is no state directory",
            layer="local",
            hint="Change to another directory, or set VAWS_STATE_DIR.",
            retry_safe=True,
        ) from None


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
