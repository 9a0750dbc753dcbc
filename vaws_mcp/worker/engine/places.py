"""Where a search begins, and which of its findings may be shown."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from ..refusal import Refusal, from_os_error
from ..request import Request
from .confine import confined, policy_of
from .names import given


class Start(NamedTuple):
    """The real directory that a search looks at, or the one that holds the single file ``only``."""

    root: bytes
    only: bytes

    @property
    def path(self) -> bytes:
        """The real path that was asked for."""
        return os.path.join(self.root, self.only) if self.only else self.root


def start_of(request: Request) -> Start:
    """Resolve ``path`` against ``cwd``, else the home directory.

    Raises: Refusal for what does not exist, is neither directory nor regular file, or may not be read.
    """
    params = request.params
    raw = given(params.optional_text("path") or ".", params.flag("escaped"))
    base = os.path.expanduser(params.optional_text("cwd") or "~")
    path = os.path.join(base, os.path.expanduser(os.fsdecode(raw)))
    real = confined(request, path, for_write=False)
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        raise from_os_error(error, path) from None
    if stat.S_ISDIR(mode):
        return Start(os.fsencode(real), b"")
    if not stat.S_ISREG(mode):
        raise Refusal("not_a_file", f"{path} is neither a directory nor a regular file")
    folder, name = os.path.split(os.fsencode(real))
    return Start(folder, name)


def may_show(request: Request, root: bytes, path: bytes) -> bool:
    """Tell whether the request's policy allows this finding to be shown."""
    if policy_of(request) is None:
        return True
    try:
        confined(request, os.fsdecode(os.path.join(root, path)), for_write=False)
    except Refusal:
        return False
    return True
