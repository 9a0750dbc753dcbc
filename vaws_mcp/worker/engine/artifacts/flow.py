"""One transfer, seen from the end that sends and from the end that receives."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ... import wire
from ...refusal import Refusal, from_os_error
from .entries import FILE, Entry, bytes_of, dump_manifest, load_manifest, shown, text_of
from .link import Heart, Link
from .plan import Plan, Wish, check_space, disk_full
from .publish import Publisher
from .receive import Receiver, load_needs
from .scan import scan
from .send import Sender
from .staging import Staging, part_name

MAX_LIST_BYTES = 64 << 20


def anything(_entries: List[Entry]) -> None:
    """Allow everything."""


class Watch:
    """Told how many bytes of files are to be moved, at most, and how many were. Units: bytes."""

    def __init__(self) -> None:
        self.total: Optional[int] = None
        self.moved = 0

    def expect(self, count: int) -> None:
        """Note how much there is to move."""
        self.total = count

    def move(self, count: int) -> None:
        """Note that so much was moved."""
        self.moved += count


def send_tree(
    link: Link, root: bytes, watch: Watch, *, dry_run: bool, allowed: Callable[[List[Entry]], None] = anything
) -> List[Entry]:
    """Offer what is at ``root``, and send what the other end lacks. ``allowed`` may refuse what was found.

    Raises: Refusal. PeerRefused. LinkLost. FrameError.
    """
    with Heart(link):
        entries = scan(root, link.check)
        allowed(entries)
        link.send({"manifest": len(entries)}, [dump_manifest(entries)])
        _, size = link.expect("needs")
        needs = load_needs(_list(link, size), entries)
        watch.expect(sum(entries[need.number].size - need.have for need in needs))
        Sender(link, root, entries, watch.move).send(needs, dry_run=dry_run)
        return entries


class Place(NamedTuple):
    """Where a file or tree goes. A file that goes to a directory goes into it as ``name``.

    ``confine`` gives a path's real one, or refuses it; ``allowed`` may refuse what is to come to that path.
    """

    path: str
    name: str
    confine: Callable[[str], str]
    allowed: Callable[[List[Entry]], None] = anything


def receive_tree(link: Link, place: Place, wish: Wish, watch: Watch) -> Dict[str, Any]:
    """Take what the other end offers, and publish it; returns what was done.

    Raises: Refusal. PeerRefused. LinkLost. FrameError.
    """
    with Heart(link):
        _, size = link.expect("manifest")
        entries = load_manifest(_list(link, size))
        target = bytes_of(place.confine(_full_path(place, entries)))
        place.allowed(entries)
        staging = Staging(target, inside=entries[0].kind != FILE and os.path.isdir(target))
        try:
            facts = _receive(link, Plan(target, entries, wish), staging, watch)
        except OSError as error:
            raise from_os_error(error, shown(target)) from None
        finally:
            staging.close()
        return {**facts, "path": text_of(target)}


def _receive(link: Link, plan: Plan, staging: Staging, watch: Watch) -> Dict[str, Any]:
    writes = not plan.wish.dry_run
    if writes and os.path.isdir(staging.path):
        staging.open()
    else:
        staging.look()
    plan.compare(staging, link)
    watch.expect(sum(plan.entries[need.number].size - need.have for need in plan.needs))
    if writes and plan.has_work:
        staging.open()
        staging.keep_only({part_name(plan.entries[index]) for index in plan.begun})
        check_space(plan, staging)
    link.send({"needs": len(plan.needs)}, [json.dumps(plan.needs, separators=(",", ":")).encode("ascii")])
    receiver = Receiver(link, plan, staging, watch.move)
    publisher = Publisher(plan, staging, receiver)
    try:
        end = receiver.receive()
        if writes:
            publisher.publish()
    except Refusal as refusal:
        if refusal.code == "disk_full":
            staging.remove()
            raise disk_full(plan.target, refusal.message) from None
        raise
    staging.remove()
    if writes:
        publisher.finish_root()
    return publisher.facts(end)


def _list(link: Link, size: int) -> bytes:
    if size > MAX_LIST_BYTES:
        raise wire.FrameError(f"a list of {size} bytes")
    return link.exactly(size)


def _full_path(place: Place, entries: List[Entry]) -> str:
    path = os.path.expanduser(place.path)
    into = entries[0].kind == FILE and (path.endswith("/") or os.path.isdir(path))
    if not into:
        return path
    if place.name in ("", ".", "..") or "/" in place.name:
        raise Refusal("is_directory", f"{path} is a directory", "caller", hint="Name the file it is to become.")
    return os.path.join(path, place.name)
