"""What a transfer has to do at its target, found by comparing it with the entries that are to be there."""

from __future__ import annotations

import os
import stat
from typing import Dict, List, NamedTuple, Optional, Set

from ...refusal import Refusal
from .entries import FILE, FOLDER, LINK, Entry, listed, shown
from .inside import Inside
from .link import Link
from .scan import PART_PREFIX, Digest, hash_file, hash_open
from .send import Need
from .staging import Staging, part_name


class Wish(NamedTuple):
    """How a transfer is asked for. ``checksum`` compares files by hash even if size and time agree."""

    checksum: bool = False
    delete: bool = False
    dry_run: bool = False


class Plan:
    """What has to be done at a target, found by comparing it with the entries that are to be there."""

    def __init__(self, target: bytes, entries: List[Entry], wish: Wish) -> None:
        self.target = target
        self._inside = Inside(target)
        self.entries = entries
        self.wish = wish
        self.fresh = False
        self.needs: List[Need] = []
        self.from_old: Set[int] = set()
        self.begun: Dict[int, Digest] = {}
        self.owners: Dict[int, os.stat_result] = {}
        self.folders: List[Entry] = []
        self.links: List[Entry] = []
        self.modes: List[Entry] = []
        self.unchanged = 0
        self.extra: List[bytes] = []

    @property
    def is_file(self) -> bool:
        """Whether one file is moved, not a tree."""
        return self.entries[0].kind == FILE

    @property
    def has_work(self) -> bool:
        """Whether anything but times of directories has to change."""
        return bool(self.needs or self.folders or self.links or self.modes or self.extra)

    def compare(self, staging: Staging, link: Link) -> None:
        """Find what is missing. Raises: Refusal ``type_conflict`` or ``unsafe_target``; OSError."""
        self.fresh = not self.is_file and not os.path.lexists(self.target)
        conflicts: List[bytes] = []
        for index, entry in enumerate(self.entries):
            old = None if self.fresh else self._lstat(entry)
            if old is not None and self._same_file(entry, old):
                self.unchanged += 1
            elif old is not None and stat.S_ISDIR(old.st_mode) != (entry.kind == FOLDER):
                conflicts.append(entry.rel or self.target)
            elif entry.kind == FOLDER:
                if old is None:
                    self.folders.append(entry)
                elif entry.rel and stat.S_IMODE(old.st_mode) != entry.mode:
                    self.modes.append(entry)
            elif entry.kind == LINK:
                self._compare_link(entry, old)
            else:
                self._compare_file(index, entry, old, staging, link)
        self._inside.close()
        if conflicts:
            message = f"a directory here and none there, or the reverse, in {shown(self.target)}: {listed(conflicts)}"
            raise Refusal("type_conflict", message, hint="Remove or rename one of them.")
        if self.wish.delete and not self.fresh and not self.is_file:
            self._find_extra()

    def _lstat(self, entry: Entry) -> Optional[os.stat_result]:
        try:
            return os.lstat(self._inside.path(entry.rel))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _same_file(self, entry: Entry, old: os.stat_result) -> bool:
        """Tell whether a file is as it has to be, by kind, mode, size and time."""
        same = old.st_mtime_ns == entry.mtime_ns and old.st_size == entry.size
        return same and old.st_mode == stat.S_IFREG | entry.mode and entry.kind == FILE and not self.wish.checksum

    def _compare_link(self, entry: Entry, old: Optional[os.stat_result]) -> None:
        same_time = old is not None and stat.S_ISLNK(old.st_mode) and old.st_mtime_ns == entry.mtime_ns
        if same_time and os.readlink(self._inside.path(entry.rel)) == entry.link:
            self.unchanged += 1
        else:
            self.links.append(entry)

    def _compare_file(
        self, index: int, entry: Entry, old: Optional[os.stat_result], staging: Staging, link: Link
    ) -> None:
        regular = old is not None and stat.S_ISREG(old.st_mode)
        if old is not None and regular:
            if old.st_size == entry.size and old.st_mtime_ns == entry.mtime_ns and not self.wish.checksum:
                self.unchanged += 1
                if stat.S_IMODE(old.st_mode) != entry.mode:
                    self.modes.append(entry)
                return
            self.owners[index] = old
        name = part_name(entry) if staging.any_present else ""
        if 0 < staging.present(name) <= entry.size:
            self.begun[index] = _hash_part(staging.part(name), link)
            self.needs.append(Need(index, staging.present(name), self.begun[index].hexdigest()))
        elif old is not None and regular and old.st_size == entry.size > 0:
            self.from_old.add(index)
            self.needs.append(Need(index, entry.size, _hash_or_nothing(self._inside.path(entry.rel), link)))
        else:
            self.needs.append(Need(index, 0, ""))

    def _find_extra(self) -> None:
        """Note what the target has and the entries have not, directories after what is in them."""
        real = os.path.realpath(self.target)
        home = os.path.realpath(os.path.expanduser(b"~"))
        if home == real or home.startswith(real.rstrip(b"/") + b"/"):
            message = f"delete is refused for {shown(self.target)}, which holds the home directory"
            raise Refusal("unsafe_target", message, "caller", hint="Name a directory of its own.")
        wanted = {entry.rel for entry in self.entries}
        for folder, _, files in os.walk(self.target, topdown=False):
            base = os.path.relpath(folder, self.target)
            rel = b"" if base == b"." else base
            if any(part.startswith(PART_PREFIX) for part in rel.split(b"/")):
                continue
            links = [name for name in os.listdir(folder) if os.path.islink(os.path.join(folder, name))]
            for name in sorted({*files, *links}):
                inner = rel + b"/" + name if rel else name
                if inner not in wanted:
                    self.extra.append(inner)
            if rel not in wanted:
                self.extra.append(rel)


def _hash_part(path: bytes, link: Link) -> Digest:
    os.chmod(path, 0o600)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return hash_open(fd, link.alive)
    finally:
        os.close(fd)


def check_space(plan: Plan, staging: Staging) -> None:
    """Refuse what cannot fit before anything is sent. Raises: Refusal ``disk_full``."""
    facts = os.statvfs(staging.path)
    free = facts.f_bavail * facts.f_frsize
    wanted = sum(plan.entries[need.number].size - need.have for need in plan.needs)
    if wanted > free:
        raise disk_full(plan.target, f"{wanted} bytes are to be written and {free} are free")


def disk_full(target: bytes, why: str) -> Refusal:
    """Return the refusal of a transfer that does not fit."""
    message = f"{shown(target)}: No space left on the device: {why}"
    return Refusal("disk_full", message, hint="Free some space; the target was left as it was.")


def _hash_or_nothing(path: bytes, link: Link) -> str:
    try:
        return hash_file(path, link.alive)
    except OSError:
        return ""  # unreadable here: it is sent whole
