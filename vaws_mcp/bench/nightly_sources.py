"""Where nightly configurations lie: in a directory here, in the commit of the endpoint's tree, or in one there."""

import difflib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from vaws_mcp.bench.nightly_failures import nightly_absent, nightly_malformed, nightly_unknown
from vaws_mcp.bench.nightly_models import Source
from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.source.git import git, git_text

CONFIGS = "tests/e2e/nightly/single_node/models/configs"
SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 256 << 10
GIT_BOUND_S = 20.0


@dataclass(frozen=True)
class Text:
    """A file that was read, and where."""

    raw: bytes
    source: Source


async def read_text(name: str, root: str | None, connect: Callable[[], Awaitable[Endpoint]]) -> Text:
    """Return the file of a name: below ``root`` here, else on the endpoint; without it, from the endpoint's commit.

    The endpoint is asked only when the file is not here.

    Raises: Failure of connecting or reading.
    """
    folder = folder_here(root) if root is not None else None
    if folder is not None:
        return await read_here(folder, name)
    endpoint = await connect()
    return await read_commit(endpoint, name) if root is None else await read_there(endpoint, root, name)


def folder_here(root: str) -> Path | None:
    """Return the directory with configurations, when ``root`` is a directory of this machine."""
    folder = Path(root).expanduser().absolute()
    if not folder.is_dir():
        return None
    return folder / CONFIGS if (folder / CONFIGS).is_dir() else folder


def names_in(files: Sequence[str]) -> dict[str, str]:
    """Return the names of configurations among file names, with their files."""
    return {file.rsplit(".", 1)[0]: file for file in sorted(files) if file.endswith(SUFFIXES)}


def file_of(name: str, files: Sequence[str], place: str) -> str:
    """Return the file of a name, with or without its suffix.

    Raises: Refused ``nightly_unknown``.
    """
    known = names_in(files)
    if name in known.values():
        return name
    if name not in known:
        raise nightly_unknown(name, place, difflib.get_close_matches(name, known, n=1, cutoff=0.4), list(known))
    return known[name]


async def read_here(folder: Path, name: str) -> Text:
    """Return a file of a directory of this machine, as it is now; its commit is that of the tree around it.

    Raises: Refused.
    """
    raw, path = await anyio.to_thread.run_sync(_read_here, folder, name)
    commit = await _git_here(folder, "rev-parse", "--verify", "HEAD")
    changed = await _git_here(folder, "status", "--porcelain", "--", path.name) if commit else None
    modified = None if changed is None else bool(changed)
    return Text(raw, Source("local", str(folder), str(path), commit, modified))


def _read_here(folder: Path, name: str) -> tuple[bytes, Path]:
    try:
        path = folder / file_of(name, [entry.name for entry in folder.iterdir()], str(folder))
        if not path.is_file():
            raise nightly_malformed(name, f"{path} is not a regular file")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1), path
    except OSError as error:
        raise nightly_malformed(name, f"{error.filename}: {error.strerror}") from None


async def _git_here(folder: Path, *args: str) -> str | None:
    """Return what git says about a directory; None when it is in no tree, or there is no git."""
    argv = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *args]
    try:
        with anyio.fail_after(GIT_BOUND_S):
            done = await anyio.run_process(argv, check=False)
    except (OSError, TimeoutError):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


async def read_commit(endpoint: Endpoint, name: str) -> Text:
    """Return a file of the commit that the endpoint's vllm-ascend stands at; changes in its tree do not count.

    Raises: Failure of git, ``nightly_absent``, or Refused ``nightly_unknown``.
    """
    repo = endpoint.config.vllm_ascend_repo
    commit = await git_text(endpoint, repo, "rev-parse", "--verify", "HEAD")
    place = f"vllm-ascend at {commit[:12]} on {endpoint.config.address}"
    listed = await git_text(endpoint, repo, "ls-tree", "-z", "--name-only", commit, "--", f"{CONFIGS}/")
    files = [entry.rsplit("/", 1)[1] for entry in listed.split("\0") if entry]
    if not files:
        raise nightly_absent(place, f"it has no {CONFIGS}")
    path = f"{CONFIGS}/{file_of(name, files, place)}"
    size = await git_text(endpoint, repo, "cat-file", "-s", f"{commit}:{path}")
    if int(size) > MAX_BYTES:
        raise nightly_malformed(name, f"it has more than {MAX_BYTES} bytes")
    text = await git_text(endpoint, repo, "cat-file", "blob", f"{commit}:{path}")
    return Text(text.encode("utf-8", "surrogateescape"), Source("endpoint", repo, path, commit, modified=False))


async def read_there(endpoint: Endpoint, root: str, name: str) -> Text:
    """Return a file of a directory on the endpoint, as it is now.

    Raises: Refused ``nightly_unknown``, or what its policy refuses.
    """
    stem = name.removesuffix(".yaml")
    base = root.rstrip("/")
    for path in (f"{base}/{CONFIGS}/{stem}.yaml", f"{base}/{stem}.yaml"):
        params: dict[str, Any] = {"path": path, "max_bytes": MAX_BYTES + 1, "max_line_bytes": MAX_BYTES + 1}
        try:
            answer = await endpoint.call("read", {**params, **policy_params(endpoint.config)})
        except Failure as failure:
            if failure.code != "not_found":
                raise
            continue
        head = await git(endpoint, path.rsplit("/", 1)[0], "rev-parse", "--verify", "HEAD")
        commit = head.text if head.code == 0 else None
        return Text(answer.body, Source("endpoint", root, path, commit, modified=None))
    place = f"{root} (it is neither a directory here nor one on {endpoint.config.address} with this file)"
    raise nightly_unknown(stem, place, [], [])


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a file in a directory.

    Raises: Refused.
    """
    if not name or "/" in name or "\0" in name or name.startswith((".", "-")):
        raise Refused(
            "nightly_name_malformed", f"{name!r} is no name of a nightly configuration", hint="Write NAME or NAME:CASE."
        )
