"""Replace a file in one step: its readers see the old contents or the new ones, never a part."""

from __future__ import annotations

import os
import tempfile
from typing import NamedTuple, Optional

TEMP_PREFIX = ".vaws-tmp-"


class Owner(NamedTuple):
    """User and group that a new file gets."""

    uid: int
    gid: int


def replace_file(
    path: str,
    body: bytes,
    *,
    mode: int = 0o600,
    owner: Optional[Owner] = None,
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
            _fill(fd, body, mode, owner)
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


def _fill(fd: int, body: bytes, mode: int, owner: Optional[Owner]) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(fd, view) :]
    if owner is not None:
        stat = os.fstat(fd)
        if (stat.st_uid, stat.st_gid) != owner:
            os.fchown(fd, owner.uid, owner.gid)
    os.fchmod(fd, mode)  # after chown, which clears the set-id bits
    os.fsync(fd)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
