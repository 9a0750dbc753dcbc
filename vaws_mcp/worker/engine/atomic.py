"""Replace a file in one step: its readers see the old contents or the new ones, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Dict, NamedTuple, Optional

TEMP_PREFIX = ".vaws-tmp-"


class Like(NamedTuple):
    """User, group and extended attributes (access control lists are such) that a new file gets."""

    uid: int
    gid: int
    attributes: Dict[str, bytes]


def replace_file(
    path: str,
    body: bytes,
    *,
    mode: int = 0o600,
    like: Optional[Like] = None,
    exclusive: bool = False,
    make_parents: bool = False,
) -> None:
    """Write ``body`` to ``path`` through a temporary file beside it, which is gone on any failure.

    Raises: OSError; FileExistsError when ``exclusive`` and the path exists.
    """
    folder = os.path.dirname(path) or "."
    if make_parents:
        os.makedirs(folder, 0o700, exist_ok=True)
    fd, temporary = tempfile.mkstemp(prefix=TEMP_PREFIX, dir=folder)
    try:
        try:
            _fill(fd, body, mode, like)
        finally:
            os.close(fd)
        if exclusive:
            os.link(temporary, path)
            os.unlink(temporary)
        else:
            os.rename(temporary, path)
    except BaseException as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        if isinstance(error, OSError):
            error.filename = path  # the caller knows nothing of the temporary file
        raise
    _sync_folder(folder)


def _fill(fd: int, body: bytes, mode: int, like: Optional[Like]) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(fd, view) :]
    if like is not None:
        stat = os.fstat(fd)
        if (stat.st_uid, stat.st_gid) != (like.uid, like.gid):
            os.fchown(fd, like.uid, like.gid)
        set_attributes(fd, like.attributes)
    os.fchmod(fd, mode)  # after chown, which clears the set-id bits
    os.fsync(fd)


def get_attributes(fd: int) -> Dict[str, bytes]:
    """Return the extended attributes of a file that may be read; a file system without any has none."""
    found: Dict[str, bytes] = {}
    with contextlib.suppress(OSError):
        for name in os.listxattr(fd):
            with contextlib.suppress(OSError):
                found[name] = os.getxattr(fd, name)
    return found


def set_attributes(fd: int, attributes: Dict[str, bytes]) -> None:
    """Give a file extended attributes, except those that only the system itself may set, such as labels."""
    for name, value in attributes.items():
        with contextlib.suppress(OSError):
            os.setxattr(fd, name, value)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
