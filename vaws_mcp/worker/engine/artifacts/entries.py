"""What a tree consists of, as it crosses the wire, and what of it is never accepted.

Paths are bytes here, relative to the root of the tree; the root itself is the empty path. On the wire they are JSON
strings in which bytes that are no UTF-8 are lone surrogates.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Set, cast

from ...refusal import Refusal

FILE, FOLDER, LINK = "f", "d", "l"
MODE_BITS = 0o777
MAX_ENTRIES = 200_000
MAX_LINK_HOPS = 40
MAX_NAMES_SHOWN = 10


class Entry(NamedTuple):
    """One file, directory or symbolic link. Units: size in bytes, mtime in nanoseconds since 1970."""

    rel: bytes
    kind: str
    mode: int
    size: int
    mtime_ns: int
    link: bytes = b""

    def under(self, root: bytes) -> bytes:
        """Return the path of the entry when the tree lies at ``root``."""
        return root + b"/" + self.rel if self.rel else root


def text_of(path: bytes) -> str:
    """Return a path as it stands in JSON."""
    return path.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return the path that a JSON string stands for. Raises: UnicodeEncodeError for strings that are no path."""
    return text.encode("utf-8", "surrogateescape")


def shown(path: bytes) -> str:
    """Return a path for a message: on one line, with bytes that are no UTF-8 as escapes."""
    return path.decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\r", "\\r")


def listed(names: List[bytes]) -> str:
    """Return some names for a message, and how many more there are."""
    more = len(names) - MAX_NAMES_SHOWN
    return ", ".join(shown(name) for name in names[:MAX_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def too_many() -> Refusal:
    """Return the refusal of a tree that is too large for one transfer."""
    message = f"the tree has more than {MAX_ENTRIES} entries"
    return Refusal("too_many_entries", message, "caller", hint="Move it in parts, or as one archive file.")


def dump_manifest(entries: List[Entry]) -> bytes:
    """Encode entries for the wire."""
    rows = [(text_of(e.rel), e.kind, e.mode, e.size, e.mtime_ns, text_of(e.link)) for e in entries]
    return json.dumps(rows, separators=(",", ":")).encode("ascii")


def load_manifest(raw: bytes) -> List[Entry]:
    """Decode entries that came from the other end and refuse every one that could do harm.

    Raises: Refusal ``unsafe_manifest`` that names the entry.
    """
    try:
        rows = json.loads(raw.decode("ascii"))
        if len(rows) > MAX_ENTRIES:
            raise too_many()
        entries = [_entry(row) for row in rows]
    except (ValueError, TypeError, KeyError) as error:  # UnicodeError is a ValueError
        raise _unsafe(f"it is malformed ({error})") from None
    check_entries(entries)
    return entries


def _entry(row: Any) -> Entry:
    if not isinstance(row, list):
        raise TypeError("an entry that is no list")
    rel, kind, mode, size, mtime_ns, link = cast("List[Any]", row)
    numbers = all(isinstance(value, int) and not isinstance(value, bool) for value in (mode, size, mtime_ns))
    if not numbers or not -1 << 62 < mtime_ns < 1 << 62 or not 0 <= size < 1 << 62:
        raise ValueError("an impossible mode, size or time")
    if not isinstance(rel, str) or not isinstance(link, str) or kind not in (FILE, FOLDER, LINK):
        raise ValueError("an impossible name or kind")
    return Entry(bytes_of(rel), kind, mode & MODE_BITS, size, mtime_ns, bytes_of(link))


def check_entries(entries: List[Entry]) -> None:
    """Refuse a tree whose entries could lead outside of it.

    Raises: Refusal ``unsafe_manifest`` or ``unsafe_link`` that names the entry.
    """
    if not entries or entries[0].rel or entries[0].kind == LINK:
        raise _unsafe("it does not begin with its root")
    folders: Set[bytes] = set()
    seen: Set[bytes] = set()
    for entry in entries:
        if entry.rel:
            _check_name(entry.rel, folders)
        if entry.rel in seen:
            raise _unsafe(f"{shown(entry.rel)} stands in it twice")
        seen.add(entry.rel)
        if entry.kind == FOLDER:
            folders.add(entry.rel)
    bad = unsafe_links(entries)
    if bad:
        raise refuse_links(bad)


def _check_name(rel: bytes, folders: Set[bytes]) -> None:
    parent, _, name = rel.rpartition(b"/")
    if name in (b"", b".", b"..") or b"\0" in rel or len(name) > 255:
        raise _unsafe(f"{shown(rel)!r} is no name inside the tree")
    if parent not in folders:
        raise _unsafe(f"{shown(rel)!r} does not lie in a directory of the tree")


def _unsafe(why: str) -> Refusal:
    return Refusal("unsafe_manifest", f"the list of files cannot be trusted: {why}", "remote_workload")


def refuse_links(bad: List[bytes]) -> Refusal:
    """Return the refusal of links that lead outside of the tree."""
    message = f"symbolic links that are absolute or lead outside of the tree: {listed(bad)}"
    hint = "Remove these links, make them relative, or move the files they point to by themselves."
    return Refusal("unsafe_link", message, hint=hint)


def unsafe_links(entries: List[Entry]) -> List[bytes]:
    """Return the links that lead outside of the tree, alone or through other links of it."""
    links = {entry.rel: entry.link for entry in entries if entry.kind == LINK}
    return [rel for rel in links if not _stays_inside(rel, links)]


def _stays_inside(rel: bytes, links: Dict[bytes, bytes]) -> bool:
    at = rel.split(b"/")
    todo: List[bytes] = []
    for _ in range(MAX_LINK_HOPS):
        link = links[b"/".join(at)]
        if not link or link.startswith(b"/") or b"\0" in link:
            return False
        at.pop()
        todo.extend(reversed(link.split(b"/")))
        while todo:
            part = todo.pop()
            if part == b".." and not at:
                return False
            if part == b"..":
                at.pop()
            elif part not in (b"", b"."):
                at.append(part)
                if b"/".join(at) in links:
                    break
        else:
            return True
    return True  # too many links: nothing follows such a chain
