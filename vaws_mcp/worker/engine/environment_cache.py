"""What sourcing scripts changes, kept in memory and in ``~/.vaws/env-cache/`` until a file that took part changes.

Entries hold only the difference to the variables that were there before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, cast

from ..facts import procfs
from .atomic import replace_file

_VOLATILE = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "XDG_SESSION_ID", "XDG_RUNTIME_DIR", "VAWS_REQUEST_ID"))


class Delta(NamedTuple):
    """What sourcing changed, the digest of each file that took part in it (empty: absent), and what was decided."""

    set: Dict[str, str]
    unset: List[str]
    files: Dict[str, str]
    notes: Dict[str, Any]


class _Entry(NamedTuple):
    delta: Delta
    stamps: Dict[str, Tuple[int, int, int]]


_lock = threading.Lock()
_entries: Dict[str, _Entry] = {}


def kept(key: str, refresh: bool, make: Callable[[], Delta]) -> Tuple[Delta, str]:
    """Return what is known under the key, else what ``make`` gives, which is then known."""
    if not refresh:
        delta = _from_memory(key) or _from_disk(key)
        if delta is not None:
            return delta, "cached"
    delta = make()
    _remember(key, delta)
    with contextlib.suppress(OSError):  # a full disk must not keep a command from running
        replace_file(_cache_path(key), json.dumps(delta._asdict()).encode("ascii"), make_parents=True)
    return delta, "sourced"


def key_of(base: Dict[str, str], what: List[Any]) -> str:
    """Return the key of an environment: the user, what is sourced, and the variables it starts from."""
    stable = sorted((name, value) for name, value in base.items() if name not in _VOLATILE)
    text = json.dumps([os.getuid(), what, stable])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _cache_path(key: str) -> str:
    return os.path.join(os.path.expanduser("~"), ".vaws", "env-cache", key + ".json")


def difference(before: Dict[str, str], after: Dict[str, str], read: List[str], notes: Dict[str, Any]) -> Delta:
    """Return what sourcing changed; ``read`` are the files whose change makes it void."""
    changed = {name: value for name, value in after.items() if name not in _VOLATILE and before.get(name) != value}
    gone = [name for name in before if name not in after and name not in _VOLATILE]
    return Delta(changed, gone, {path: _digest(path) or "" for path in read}, notes)


def _digest(path: str) -> Optional[str]:
    raw = procfs.read_small(path, 64 << 20)
    return None if raw is None else hashlib.sha256(raw).hexdigest()


def _stamp(path: str) -> Tuple[int, int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _remember(key: str, delta: Delta) -> None:
    with _lock:
        _entries[key] = _Entry(delta, {path: _stamp(path) for path in delta.files})


def _from_memory(key: str) -> Optional[Delta]:
    entry = _entries.get(key)
    if entry is None or any(_stamp(path) != stamp for path, stamp in entry.stamps.items()):
        return None
    return entry.delta


def _from_disk(key: str) -> Optional[Delta]:
    raw = procfs.read_small(_cache_path(key), 16 << 20)
    if raw is None:
        return None
    try:
        fields = cast("Dict[str, Any]", json.loads(raw.decode("utf-8")))
        delta = Delta(dict(fields["set"]), list(fields["unset"]), dict(fields["files"]), dict(fields["notes"]))
    except (ValueError, KeyError, TypeError):
        return None  # torn or from another version: sourced and written anew
    if any((_digest(path) or "") != digest for path, digest in delta.files.items()):
        return None
    _remember(key, delta)
    return delta
