"""The method that lists a file or tree with sizes, modes, times, links and hashes."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional

from ...request import Answer, Request
from ..confine import confined
from .entries import FILE, FOLDER, LINK, Entry, bytes_of, text_of, unsafe_links
from .scan import Scanner, hash_file


def manifest(request: Request) -> Answer:
    """Answer with one page of the entries at ``path`` and figures of all; only the files of the page are hashed."""
    params = request.params
    root = bytes_of(confined(request, params.text("path"), for_write=False))
    scanner = Scanner(root, request.check)
    scanner.look()
    entries = sorted(scanner.entries)
    offset, limit = params.integer("offset", 0), params.integer("limit", 500)
    page = entries[offset : offset + limit]
    hashed = params.flag("checksum", True)
    rows = [_row(entry, root, request, hashed) for entry in page]
    kinds = [entry.kind for entry in entries]
    more = offset + len(page) < len(entries)
    facts: Dict[str, Any] = {
        "path": text_of(root),
        "entries": len(entries),
        "files": kinds.count(FILE),
        "folders": kinds.count(FOLDER),
        "links": kinds.count(LINK),
        "total_bytes": sum(entry.size for entry in entries),
        "next_offset": offset + len(page) if more else None,
        "special": [text_of(name) for name in scanner.special],
        "unreadable": [text_of(name) for name in scanner.unreadable],
        "unsafe_links": [text_of(name) for name in unsafe_links(entries)],
    }
    return facts, json.dumps(rows, separators=(",", ":")).encode("ascii")


def _row(entry: Entry, root: bytes, request: Request, hashed: bool) -> List[Any]:
    digest: Optional[str] = None
    if entry.kind == FILE and hashed:
        path = os.path.join(root, entry.rel) if entry.rel else root
        try:
            digest = hash_file(path, request.check)
        except OSError:
            digest = None  # it is unreadable, or has gone meanwhile
    return [text_of(entry.rel), entry.kind, entry.mode, entry.size, entry.mtime_ns, text_of(entry.link), digest]
