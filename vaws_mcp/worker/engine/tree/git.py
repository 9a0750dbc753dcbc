"""git in one tree, with nothing started that the tree's configuration names, and every wait bounded."""

from __future__ import annotations

import os
import select
import shutil
import signal
import tempfile
import time
from typing import IO, Any, Callable, Dict, List, NamedTuple, Optional

from ...refusal import Refusal, from_os_error
from ..child import Child, Spawn

BOUND_S = 300.0
_POLL_MS = 50
_END_S = 5.0
_MAX_SAID = 400
# Programs that a tree's configuration may name: hooks, a file watcher, a pager. Bitmaps would leave objects out of a
# pack that a shallow receiver lacks.
_SETTINGS = (
    "safe.directory=*",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "advice.detachedHead=false",
    "submodule.recurse=false",
    "pack.useBitmaps=false",
    "gc.auto=0",
)


# How to reach a remote and where the user's configuration is; others, such as GIT_DIR, would lead elsewhere.
_KEPT = (
    "GIT_SSH",
    "GIT_ASKPASS",
    "GIT_PROXY",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_EXEC",
)


class Ended(NamedTuple):
    """How a git command ended: exit code (negative for a signal), its output, and what it complained about."""

    code: int
    out: bytes
    said: str


def never() -> None:
    """Let the work go on: the check of a caller that cannot be cancelled."""


def environment(base: Dict[str, str]) -> Dict[str, str]:
    """Return an environment for git without variables that would lead it elsewhere."""
    kept = {name: value for name, value in base.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    fixed = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
    return {**kept, **fixed}


class Git:
    """git in the tree at ``top``. ``check`` is called while it runs and may raise to end it."""

    def __init__(self, top: str, base: Dict[str, str], check: Callable[[], None] = never) -> None:
        self.top = top
        self.base = base
        self.check = check
        self._env = environment(base)
        program = shutil.which("git", path=self._env.get("PATH"))
        if program is None:
            raise Refusal("git_missing", "there is no git on this machine", hint="Install git.")
        self._argv = [program, "--literal-pathspecs"]
        for setting in _SETTINGS:
            self._argv += ["-c", setting]

    def at(self, top: str) -> Git:
        """Return git in another tree."""
        return Git(top, self.base, self.check)

    def with_env(self, **more: str) -> Git:
        """Return the same with further variables, such as GIT_INDEX_FILE."""
        other = Git(self.top, self.base, self.check)
        other._env = {**self._env, **more}
        return other

    def run(
        self,
        *words: str,
        stdin: bytes = b"",
        source: Optional[IO[bytes]] = None,
        out: Optional[IO[bytes]] = None,
        bound_s: float = BOUND_S,
    ) -> Ended:
        """Run a command to its end. Files ``source`` and ``out`` take the place of its input and output.

        Raises: Refusal ``git_timeout``, or that of ``check``; the command has ended then.
        """
        with tempfile.TemporaryFile() as inp, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as kept:
            inp.write(stdin)
            inp.seek(0)
            streams: List[IO[bytes]] = [source or inp, out or kept, err]
            argv = [*self._argv, "-C", self.top, *words]
            stdio = [stream.fileno() for stream in streams]
            try:
                child = Child(Spawn(argv, "/", self._env, stdio))
            except OSError as error:
                raise from_os_error(error, argv[0]) from None
            code = self._finish(child, words[0], bound_s)
            err.seek(0)
            kept.seek(0)
            return Ended(code, kept.read(), _last_words(err.read()))

    def _finish(self, child: Child, what: str, bound_s: float) -> int:
        poller = select.poll()
        poller.register(child.exit_fd, select.POLLIN)
        limit = time.monotonic() + bound_s
        try:
            while not poller.poll(_POLL_MS):
                self.check()
                self._require_time(limit, what)
        except Refusal:
            child.kill_unreaped(signal.SIGTERM)
            if child.reap(_END_S) is None:
                child.kill_unreaped(signal.SIGKILL)
            raise
        finally:
            code = child.reap(_END_S)
            child.close()
        return 128 if code is None else code

    def _require_time(self, limit: float, what: str) -> None:
        if time.monotonic() >= limit:
            raise Refusal("git_timeout", f"git {what} in {self.top} did not end in time", hint="Repeat this call.")

    def out(self, *words: str, stdin: bytes = b"") -> bytes:
        """Run a command that has to succeed and return its output.

        Raises: Refusal ``git_failed`` with git's own words.
        """
        ended = self.run(*words, stdin=stdin)
        if ended.code != 0:
            raise failed(self.top, words[0], ended)
        return ended.out

    def text(self, *words: str, stdin: bytes = b"") -> str:
        """Return the output of a command that has to succeed, without its last newline."""
        return os.fsdecode(self.out(*words, stdin=stdin)).rstrip("\n")


def failed(top: str, what: str, ended: Ended, **details: Any) -> Refusal:
    """Return the refusal for a git command that failed."""
    said = ended.said or f"exit code {ended.code}"
    hint = f"Look at the tree: git -C {top} status"
    return Refusal("git_failed", f"git {what} failed in {top}: {said}", hint=hint, details=details or None)


def _last_words(raw: bytes) -> str:
    lines: List[str] = raw.decode("utf-8", "replace").strip().splitlines()
    return "; ".join(line.strip() for line in lines)[-_MAX_SAID:]
