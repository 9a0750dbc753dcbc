"""Where file operations may go: below a root, and not where a path is denied.

The caller's policy travels with each request: ``{"root": path or null, "deny_paths": [globs]}``. Symbolic links are
resolved here, on the endpoint, before anything is compared, so that neither a link nor ``..`` leads out.

Between the check and the use somebody who may write below the root can exchange a directory for a link. An opened file
is therefore looked at once more (``verify``), and a file is written into a directory that is held open (``held``).
What remains: directories that are created, and hard links, which look like any other file.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
from typing import Generator, List, NamedTuple, Optional

from ..params import Params
from ..refusal import Refusal, from_os_error
from ..request import Request

_WILD = re.compile(r"[*?\[]")


class Policy(NamedTuple):
    """The limits of one request. ``root`` is a real path, or None; ``denied`` are globs."""

    root: Optional[str]
    root_given: Optional[str]
    denied: List[str]


def policy_of(request: Request) -> Optional[Policy]:
    """Return the limits that a request carries, or None when there are none.

    Raises: Refusal ``root_missing`` when the root is no directory.
    """
    values = request.params.mapping("policy")
    if not values:
        return None
    params = Params(values, "policy.")
    given, root = params.optional_text("root"), None
    if given is not None:
        root = os.path.realpath(os.path.expanduser(given))
        if not os.path.isdir(root):
            raise Refusal("root_missing", f"{given}: the root of this endpoint is no directory", hint="Correct root.")
    return Policy(root, given, [os.path.expanduser(glob) for glob in params.texts("deny_paths")])


def confined(request: Request, path: str, *, for_write: bool) -> str:
    """Return the real path of ``path``, which may not exist yet, when the request's policy allows it.

    Raises: Refusal ``outside_root`` or ``path_denied``.
    """
    real = os.path.realpath(os.path.expanduser(path))
    policy = policy_of(request)
    if policy is not None:
        _judge(policy, path, real, for_write)
    return real


def _judge(policy: Policy, path: str, real: str, for_write: bool) -> None:
    act = "written" if for_write else "read"
    where = "" if real == path else f" (it is {real})"
    if policy.root is not None and not _within(real, policy.root):
        message = f"{path}{where} may not be {act}: it lies outside of {policy.root_given}, the root of this endpoint"
        raise Refusal("outside_root", message, "caller", hint="Use a path below the root.")
    pattern = _denying(policy, real) or _denying(policy, os.path.abspath(os.path.expanduser(path)))
    if pattern is not None:
        message = f"{path}{where} may not be {act}: deny_paths of this endpoint has {pattern!r}"
        raise Refusal("path_denied", message, "caller", hint="Leave this file alone.")


def _within(real: str, root: str) -> bool:
    return real == root or real.startswith(root.rstrip("/") + "/")


def _denying(policy: Policy, path: str) -> Optional[str]:
    """Return the first glob that denies a path or a directory above it."""
    for pattern in policy.denied:
        if _matches(path, pattern):
            return pattern
    return None


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a glob names a path or a directory above it. Without a slash it names one part of the path."""
    if "/" not in pattern:
        return any(fnmatch.fnmatchcase(part, pattern) for part in path.split("/"))
    forms = {pattern.rstrip("/"), _real_glob(pattern.rstrip("/"))}
    at = path
    while at not in ("", "/"):
        if any(fnmatch.fnmatchcase(at, form) for form in forms):
            return True
        at = os.path.dirname(at)
    return False


def _real_glob(pattern: str) -> str:
    """Resolve links in the part of a glob before its first wild card, as they are resolved in paths."""
    wild = _WILD.search(pattern)
    if wild is None:
        return os.path.realpath(pattern)
    fixed, slash, rest = pattern[: wild.start()].rpartition("/")
    return os.path.realpath(fixed or "/").rstrip("/") + slash + rest + pattern[wild.start() :] if slash else pattern


def verify(request: Request, fd: int, path: str, *, for_write: bool) -> None:
    """Look at an open file or directory once more: since the check, a part of its path may have become a link.

    Raises: Refusal as ``confined``.
    """
    policy = policy_of(request)
    if policy is None:
        return
    try:
        real = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return  # without /proc the first check stands alone
    if real != path:
        _judge(policy, path, real, for_write)


@contextlib.contextmanager
def held(request: Request, path: str) -> Generator[str, None, None]:
    """Hold the directory of a confined path open and give a path through it, which no exchanged directory can divert.

    Without a policy the path stays as it is. ``path`` is what ``confined`` returned, and its directory exists.
    Raises: Refusal as ``confined``.
    """
    if not request.params.mapping("policy") or not os.path.isdir("/proc/self/fd"):
        yield path
        return
    folder, name = os.path.split(path)
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise from_os_error(error, folder) from None
    try:
        verify(request, fd, folder, for_write=True)
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)
