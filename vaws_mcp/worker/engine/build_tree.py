"""``build.inspect``: what a build has left in a source tree, found without ever looking outside of it.

Nothing is changed here. What this names may be removed: it is untracked, inside the tree, and reached without a link.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any, Dict, List, Optional

from ..refusal import Refusal, bad_request
from ..request import Answer, Request
from . import environment
from .ask import ask

_MOST_PATTERNS = 100
_SYSTEM = (
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
)
# A tree may name programs in its configuration: none of them is started.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


def inspect(request: Request) -> Answer:
    """Answer with the remotes of a git tree, its commit, and which of the ``patterns`` below it are build artifacts.

    Params: repo (its top directory, absolute), patterns (globs below it, as git takes them with ``:(glob)``).
    Raises: Refusal ``repo_refused`` for a place that must not be cleaned, ``bad_params`` for a pattern that could lead
    out of the tree.
    """
    params = request.params
    repo = params.text("repo")
    patterns = params.texts("patterns")
    for pattern in patterns:
        check_pattern(pattern)
    if len(patterns) > _MOST_PATTERNS:
        raise bad_request(f"build.inspect: more than {_MOST_PATTERNS} patterns")
    check_place(repo, environment.home())
    git = _Git(request, repo)
    if git.ask("rev-parse", "--show-toplevel").rstrip("\n") != repo:
        raise _refused(repo, "it is not the top directory of a git tree")
    names = _untracked(git, patterns) if patterns else []
    return {
        "repo": repo,
        "commit": git.ask("rev-parse", "HEAD").strip(),
        "remotes": _remotes(git),
        "artifacts": [_described(repo, name) for name in names],
    }, b""


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that is absolute, climbs, is empty, or matches the whole tree.

    Raises: Refusal ``bad_params``.
    """
    parts = pattern.split("/")
    if not pattern or any(part in ("", ".", "..", "*", "**", ".git") for part in parts):
        raise bad_request(f"build.inspect: {pattern!r} is no pattern of artifacts below a tree")


def check_place(repo: str, home: str) -> None:
    """Refuse a directory that can be no source tree of ours, or that is reached through a symbolic link.

    Raises: Refusal ``repo_refused`` that says why.
    """
    if not os.path.isabs(repo) or os.path.normpath(repo) != repo or repo.startswith("//"):
        raise _refused(repo, "it is not an absolute path without . and ..")
    parts = repo.strip("/").split("/")
    if repo == "/" or (len(parts) == 1 and parts[0] in _SYSTEM):
        raise _refused(repo, "it is a directory of the system")
    if os.path.join(os.path.realpath(home), "").startswith(os.path.join(os.path.realpath(repo), "")):
        raise _refused(repo, "the home directory is in it")
    try:
        real = os.path.realpath(repo)
        mode = os.lstat(repo).st_mode
    except OSError as error:
        raise _refused(repo, error.strerror or str(error)) from None
    if real != repo:
        raise _refused(repo, f"it is reached through a symbolic link and lies at {real}")
    if not stat.S_ISDIR(mode):
        raise _refused(repo, "it is not a directory")
    if not os.path.lexists(os.path.join(repo, ".git")):
        raise _refused(repo, "it is not the top directory of a git tree")


def _refused(repo: str, why: str) -> Refusal:
    hint = "Set vllm_ascend_repo of the endpoint to the real top directory of its git tree."
    return Refusal("repo_refused", f"{repo} is not cleaned: {why}", hint=hint)


class _Git:
    """git in one tree, with nothing of it started that its configuration names."""

    def __init__(self, request: Request, repo: str) -> None:
        self._request = request
        self._env = {**environment.base_environment(), "GIT_OPTIONAL_LOCKS": "0"}
        for name in [name for name in self._env if name.startswith("GIT_") and name != "GIT_OPTIONAL_LOCKS"]:
            del self._env[name]  # such as GIT_DIR, which would lead elsewhere
        program = shutil.which("git", path=self._env.get("PATH"))
        if program is None:
            raise _refused(repo, "there is no git on this machine")
        self._argv = [program, "-C", repo, "-c", f"safe.directory={repo}", *_QUIET]
        self._repo = repo

    def ask(self, *words: str) -> str:
        try:
            return ask(self._request, [*self._argv, *words], self._env)
        except Refusal as refusal:
            self._request.check()
            raise _refused(self._repo, f"git {words[0]}: {refusal.message}") from None

    def optional(self, *words: str) -> Optional[str]:
        try:
            return ask(self._request, [*self._argv, *words], self._env)
        except Refusal:
            self._request.check()
            return None


def _remotes(git: _Git) -> Dict[str, str]:
    """Return the URL of each remote as it is configured; git fails when there is none."""
    lines = (git.optional("config", "--get-regexp", r"^remote\..*\.url$") or "").splitlines()
    pairs = [line.partition(" ") for line in lines]
    return {key[len("remote.") : -len(".url")]: url for key, _, url in pairs}


def _untracked(git: _Git, patterns: List[str]) -> List[str]:
    """Return what git does not track, a directory that holds nothing else as one name with a slash at its end."""
    specs = [f":(top,glob){pattern}" for pattern in patterns]
    specs += [f":(top,glob){pattern}/**" for pattern in patterns]
    names = git.ask("ls-files", "--others", "--directory", "-z", "--", *specs).split("\0")
    return sorted({name for name in names if name})


def _described(repo: str, name: str) -> Dict[str, Any]:
    """Tell what an artifact is, and refuse the tree when one is a link that leads out of it.

    Raises: Refusal ``repo_refused``.
    """
    path = os.path.join(repo, name.rstrip("/"))
    inside = os.path.join(repo, "")
    if "\ufffd" in name or not os.path.normpath(path).startswith(inside):
        raise _refused(repo, f"{name!r} has a name that cannot be handled; remove it by hand")
    if not (os.path.realpath(os.path.dirname(path)) + "/").startswith(inside):
        raise _refused(repo, f"{name} is reached through a symbolic link that leads out of the tree")
    if os.path.islink(path) and not os.path.realpath(path).startswith(inside):
        raise _refused(repo, f"{name} is a symbolic link that leads out of the tree; remove it by hand")
    return {"path": name.rstrip("/"), "directory": os.path.isdir(path) and not os.path.islink(path)}
