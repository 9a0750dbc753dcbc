"""Files whose bytes a checkout would not give back, for git converts their line ends: their bytes are saved too."""

from __future__ import annotations

import os
import tempfile
from typing import List, Optional, Tuple

from ...refusal import from_os_error
from ..atomic import replace_file
from .git import Git
from .status import Entry, read_status

SUFFIX = "-bytes"
_LARGEST = 64 << 20


def save_bytes(git: Git, tree: str, ref: str) -> None:
    """Save changed files of a working tree under ``ref`` that would come back from ``tree`` with other bytes."""
    status = read_status(git)
    entries: List[Entry] = []
    for path in [*status.present, *status.assumed]:
        content = _with_returns(os.path.join(git.top, path))
        if content is not None and git.run("cat-file", "--filters", f"{tree}:{path}").out != content:
            oid = git.text("hash-object", "-w", "--no-filters", "--stdin", stdin=content)
            entries.append(Entry("100644", oid, path))
    if not entries:
        return
    lines = (b"%s %s\t%s\0" % (one.mode.encode(), one.oid.encode(), os.fsencode(one.path)) for one in entries)
    with tempfile.TemporaryDirectory(prefix="vaws-index-") as folder:
        work = git.with_env(GIT_INDEX_FILE=os.path.join(folder, "index"))
        work.out("update-index", "-z", "--add", "--index-info", stdin=b"".join(lines))
        git.out("update-ref", ref, work.text("write-tree"), "")


def _with_returns(path: str) -> Optional[bytes]:
    """Return the content of a regular file with carriage returns; only those are ever converted with a loss."""
    try:
        if os.path.islink(path) or not os.path.isfile(path) or os.stat(path).st_size > _LARGEST:
            return None
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise from_os_error(error, path) from None
    return content if b"\r" in content else None


def restore_bytes(git: Git, ref: str) -> None:
    """Give files back the bytes that were saved under ``ref``, when there are any."""
    for oid, path in _saved(git, ref):
        place = os.path.join(git.top, path)
        content = git.out("cat-file", "blob", oid)
        if os.path.isfile(place) and not os.path.islink(place):
            replace_file(place, content, mode=os.stat(place).st_mode & 0o7777)


def _saved(git: Git, ref: str) -> List[Tuple[str, str]]:
    if git.run("rev-parse", "--verify", "--quiet", ref).code != 0:
        return []
    found: List[Tuple[str, str]] = []
    for record in git.out("ls-tree", "-r", "-z", ref).split(b"\0"):
        fields, _, path = record.partition(b"\t")
        if path:
            found.append((fields.split()[2].decode(), os.fsdecode(path)))
    return found
