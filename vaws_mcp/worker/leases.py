"""``lease.list`` and ``tree.lock_state``: who holds what on this machine, and who waits for it."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from .facts import procfs
from .request import Answer, Request
from .supervisor import lease_dir, leases, scope, tickets, trees
from .supervisor.leases import Place

_SUFFIX = ".lock"


def list_all(request: Request) -> Answer:
    """Answer with every lease and ticket that a living process holds; a holder that cannot be named is null."""
    folder = lease_dir.chosen(request.params.optional_text("lease_dir"))
    usable = os.path.isdir(folder)
    place = Place(procfs.boot_id() or "", folder if usable else None)
    proven = scope.prove(place.folder, None if usable else f"{folder} is no directory")
    result: Dict[str, Any] = {
        "lease_dir": folder,
        "lease_scope": proven.scope,
        "lease_scope_why": proven.why,
        "leases": _held(place),
        "tickets": [_ticket(entry) for entry in tickets.living(folder)] if usable else [],
    }
    return result, b""


def _held(place: Place) -> List[Dict[str, Any]]:
    keys = set(leases.names_in_use(place))
    if place.folder is not None:
        names = (name for name in os.listdir(place.folder) if name.endswith(_SUFFIX) and name != "queue.lock")
        keys.update(name[: -len(_SUFFIX)] for name in names if lease_dir.is_held(os.path.join(place.folder, name)))
    found: List[Dict[str, Any]] = []
    for key in sorted(keys):
        if not key.startswith("logic"):  # a second name of a device that is listed by its first one
            kind = "port" if key.startswith(tickets.PORT_PREFIX) else "device"
            found.append({"key": key, "kind": kind, "holder": leases.holder_of(place, key)})
    return found


def _ticket(entry: tickets.Entry) -> Dict[str, Any]:
    return {"number": entry.number, "keys": sorted(entry.keys), "holder": entry.record or None}


def tree_lock_state(request: Request) -> Answer:
    """Answer with who holds a source tree: {tree, git_dir, locked, mode, holders}."""
    return trees.state_of(request.params.text("path")), b""
