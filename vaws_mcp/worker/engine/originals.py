"""A file as it was when it was read: contents and everything that a replacement has to keep."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from typing import Dict, Generator, NamedTuple, Optional

from ..refusal import Refusal, from_os_error
from ..request import Request
from .atomic import get_attributes
from .confine import verify
from .lines import WHOLE_FILE_BYTES, Lines
from .paths import shown


class Snapshot(NamedTuple):
    """Contents, facts and extended attributes (access control lists are such) of a regular file."""

    body: bytes
    facts: os.stat_result
    attributes: Dict[str, bytes]

    @property
    def mode(self) -> int:
        """Return the permission bits."""
        return stat.S_IMODE(self.facts.st_mode)


def digest(body: bytes) -> str:
    """Return the sha256 of contents in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


@contextlib.contextmanager
def naming(path: str) -> Generator[None, None, None]:
    """Turn operating system errors into refusals that name this path."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, shown(path)) from None


def take(request: Request, path: str) -> Optional[Snapshot]:
    """Read a regular file whole, or return None when there is nothing. ``path`` is what ``confined`` returned.

    Raises: Refusal when it is something else, is too large or may not be read.
    """
    with naming(path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            verify(request, fd, path, for_write=True)
            facts = os.fstat(fd)
            _refuse_unfit(path, facts)
            body = b"".join(Lines(fd, facts.st_size, request.check).chunks())
            return Snapshot(body, facts, get_attributes(fd))
        finally:
            os.close(fd)


def _refuse_unfit(path: str, facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise Refusal("is_directory", f"{shown(path)} is a directory")
    if not stat.S_ISREG(facts.st_mode):
        raise Refusal("not_a_file", f"{shown(path)} is not a regular file")
    if facts.st_size > WHOLE_FILE_BYTES:
        message = f"{shown(path)} has {facts.st_size} bytes; at most {WHOLE_FILE_BYTES} can be edited"
        raise Refusal("too_large", message, hint="Change it with a command, such as sed or a script.")


def is_unchanged(path: str, facts: os.stat_result) -> bool:
    """Tell whether a path still holds the file of a snapshot."""
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    kept = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
    return kept == (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
