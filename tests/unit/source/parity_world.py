"""A local tree and an endpoint's clone of it, both on this machine; the endpoint is reached through a real worker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaws_mcp.catalog import BY_NAME
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint

PERSON = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@x"}


def git(top: Path, *words: str, stdin: bytes = b"") -> str:
    """Run git in a tree and return its output."""
    env = {**os.environ, **PERSON, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    argv = ["git", "-C", str(top), "-c", "protocol.file.allow=always", *words]
    done = subprocess.run(argv, input=stdin, env=env, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, (words, done.stderr)
    return os.fsdecode(done.stdout).rstrip("\n")


def shown(top: Path, what: str) -> str | None:
    """Return a file of a commit, or None when it has none."""
    done = subprocess.run(
        ["git", "-C", str(top), "show", what], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout if done.returncode == 0 else None


def commit_all(top: Path, message: str = "more") -> str:
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", message, "--allow-empty")
    return git(top, "rev-parse", "HEAD")


def new_tree(top: Path, files: dict[str, str]) -> Path:
    top.mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    write(top, files)
    commit_all(top, "first")
    return top


def write(top: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def contents(top: Path) -> dict[bytes, tuple[str, bytes]]:
    """Everything below a tree by name, apart from git's own: kind or executable bit, and bytes."""
    found: dict[bytes, tuple[str, bytes]] = {}
    for path in top.rglob("*"):
        name = path.relative_to(top)
        if ".git" in name.parts:
            continue
        if path.is_symlink():
            found[os.fsencode(name)] = ("link", os.fsencode(path.readlink()))
        elif path.is_file():
            found[os.fsencode(name)] = ("x" if path.stat().st_mode & 0o100 else "-", path.read_bytes())
    return found


def frozen(top: Path) -> tuple[Any, ...]:
    """What must not change in a user's tree: refs, HEAD, index, files."""
    index = (top / ".git" / "index").read_bytes()
    return git(top, "show-ref"), (top / ".git" / "HEAD").read_bytes(), index, contents(top)


@dataclass
class World:
    """A task whose local tree is ``local``; the endpoint's tree is ``remote``."""

    local: Path
    remote: Path
    state_dir: Path
    resources: Resources
    context_file: str = ""

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        ctx = Context(state_dir=self.state_dir, resources=self.resources, wait_s=60.0)
        return await invoke(BY_NAME[name], arguments, ctx)

    async def endpoint(self) -> Endpoint:
        return await connected(self.context(), load_endpoints(self.state_dir)["box"])

    def context(self) -> Context:
        return Context(state_dir=self.state_dir, resources=self.resources, effect="write")

    async def sync(self, **arguments: Any) -> dict[str, Any]:
        return await self.call("code_sync", context_file=self.context_file, **arguments)

    async def synced(self, **arguments: Any) -> dict[str, Any]:
        """Synchronise, and return the one tree of a call that succeeded with proof."""
        answer = await self.sync(**arguments)
        assert answer["outcome"] == "success", answer
        (tree,) = answer["trees"]
        assert tree["equal"]
        assert tree["local_tree"] == tree["remote_tree"]
        return tree


@asynccontextmanager
async def opened(folder: Path, local: Path, remote: Path, python: str | None = None) -> AsyncGenerator[World]:
    """Bind a local tree to a task whose endpoint has ``remote`` as its tree."""
    state_dir = folder / "state"
    state_dir.mkdir(parents=True)
    config = EndpointConfig(name="box", cann=False, python=python, vllm_ascend_repo=str(remote))
    save_endpoint(state_dir, config.model_copy(update={"vllm_repo": str(folder / "vllm remote")}))
    async with Resources() as resources:
        world = World(local, remote, state_dir, resources)
        made = await world.call("task_create", slug="parity", endpoint="box", vllm_ascend=str(local))
        world.context_file = made["context_file"]
        yield world
