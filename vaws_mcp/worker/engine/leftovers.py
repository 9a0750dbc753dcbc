"""What killed workers have left beside the files that they were writing.

A new content is staged under a hidden name and renamed when it is complete, so what lies there for a day has been left
by a worker that was killed meanwhile. (If it was only frozen, its rename fails, and the file stays as it is.)
Originals, ``.vaws-tmp-*.old``, are never removed here: they may be all that is left of a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from typing import Set, Tuple

LEFT_AFTER_S = 86400.0
_STAGED = re.compile(r"\.vaws-tmp-(?:[0-9a-f]{32}\.new|[a-z0-9_]{8})\Z")
_MOST_ENTRIES = 20_000
_MOST_FOLDERS = 10_000

_lock = threading.Lock()
_swept: Set[Tuple[int, int]] = set()


def sweep(folder: str) -> int:
    """Remove our user's old staged files from a directory, once for each directory; returns how many there were.

    Errors are passed over: nobody waits for this. In a very large directory only a part is looked at.
    """
    removed = 0
    with contextlib.suppress(OSError):
        facts = os.stat(folder or ".")
        key = (facts.st_dev, facts.st_ino)
        with _lock:
            if key in _swept or len(_swept) >= _MOST_FOLDERS:
                return 0
            _swept.add(key)
        with os.scandir(folder or ".") as entries:
            for _, entry in zip(range(_MOST_ENTRIES), entries):
                if _STAGED.match(entry.name) and _is_left(entry):
                    os.unlink(entry.path)
                    removed += 1
    return removed


def _is_left(entry: os.DirEntry[str]) -> bool:
    facts = entry.stat(follow_symlinks=False)
    old = time.time() - facts.st_mtime > LEFT_AFTER_S
    return old and stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid()
