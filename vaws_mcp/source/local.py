"""A bound source tree on this machine: its hash as it stands, and packs of what another repository lacks of it."""

import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from anyio.to_thread import run_sync

from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.channel import failure_from
from vaws_mcp.worker.engine.tree.git import Git
from vaws_mcp.worker.engine.tree.snapshot import Objects, Snapshot, take
from vaws_mcp.worker.engine.tree.state import known
from vaws_mcp.worker.refusal import Refusal

T = TypeVar("T")

MOST_HISTORY = 4096


@dataclass(frozen=True)
class Missing:
    """What a repository lacks: everything of ``commit`` that is not of ``exclude``; history ends at ``shallow``."""

    commit: str
    exclude: tuple[str, ...]
    shallow: tuple[str, ...]


@dataclass(frozen=True)
class RemoteStore:
    """What the other repository of a tree has: the asked-for commits, and the tips of its refs."""

    have: frozenset[str]
    tips: tuple[str, ...]
    shallow: bool


@dataclass(frozen=True)
class LocalTree:
    """A tree of this machine as it stands, with its submodules; objects made for it lie in ``objects``."""

    git: Git
    objects: Objects
    now: Snapshot

    def at(self, path: str) -> Git:
        """Return git in the tree itself (``""``) or in a submodule, with the objects made for it in reach."""
        whole = self.now.whole()
        return self.objects.of(self.git.at(whole[path].top))


@asynccontextmanager
async def local_tree(source: Path) -> AsyncGenerator[LocalTree]:
    """Look at a bound tree. Its index, refs and files are only read, and new objects are gone at the end.

    Raises: Failure with layer local.
    """
    with tempfile.TemporaryDirectory(prefix="vaws-parity-") as scratch:
        objects = Objects(scratch)
        git = await here(Git, str(source), dict(os.environ))
        yield LocalTree(git, objects, await here(lambda: take(git, objects)))


async def here(work: Callable[..., T], *args: object) -> T:
    """Do blocking work of the worker's code on this machine.

    Raises: Failure whose layer is this machine.
    """
    try:
        return await run_sync(work, *args)
    except Refusal as refusal:
        error = refusal.as_error()
        layer = "local" if refusal.layer == "remote_env" else refusal.layer
        raise failure_from({**error, "layer": layer}, "the local tree") from None
    except OSError as error:
        raise Failure("local_io", f"cannot work with the local tree: {error}", layer="local", retry_safe=True) from None


def candidates(git: Git, now: Snapshot) -> list[str]:
    """Return commits to ask the other side about: the one to be sent, then HEAD and ancestors ever further apart."""
    words = ("--first-parent", f"--max-count={MOST_HISTORY}", now.head)
    line = git.text("rev-list", *words).splitlines()
    steps = [0, *(1 << power for power in range(13))]
    return list(dict.fromkeys([now.commit, *(line[step] for step in steps if step < len(line))]))


def missing(git: Git, now: Snapshot, store: RemoteStore | None, asked: list[str]) -> Missing | None:
    """Return what has to travel so that the other side has ``now.commit``; None when it has it.

    A shallow repository on either side knows less than the ancestors of its commits; no more is left out then than the
    commits it has named. Without any common commit the history ends at HEAD.
    """
    if store is not None and now.commit in store.have:
        return None
    common = [] if store is None else [oid for oid in asked if oid in store.have]
    if store is None or ((store.shallow or now.shallow) and not common):
        return Missing(now.commit, (), (now.head,))
    tips = [] if store.shallow or now.shallow else known(git, list(store.tips))
    return Missing(now.commit, (*common[:1], *tips), ())


def write_pack(git: Git, lacking: Missing, path: Path) -> int:
    """Write the pack of what is missing to a file and return its size. Units: bytes."""
    lines = [*(f"--shallow {oid}" for oid in lacking.shallow), lacking.commit, *(f"^{oid}" for oid in lacking.exclude)]
    words = ("--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet", "--shallow")
    with path.open("wb") as target:
        ended = git.run("pack-objects", *words, stdin=("\n".join(lines) + "\n").encode(), out=target)
    if ended.code != 0:
        raise Refusal("git_failed", f"git pack-objects failed in {git.top}: {ended.said or ended.code}")
    return path.stat().st_size


def module_names(git: Git) -> dict[str, str]:
    """Return the names of a tree's submodules by their paths."""
    words = ("--file", ".gitmodules", "--null", "--get-regexp", r"^submodule\..*\.path$")
    ended = git.run("config", *words)
    if ended.code != 0:
        return {}
    pairs = [record.split("\n", 1) for record in os.fsdecode(ended.out).split("\0") if "\n" in record]
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, path in pairs}
