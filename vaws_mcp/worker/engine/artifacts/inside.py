"""Paths of what is in a tree, through its directories held open one below the other.

A transfer takes its time. Meanwhile somebody may exchange a directory of the tree for a link that leads out of it;
then a path through it is refused, where a plain one would be followed.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Optional

FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class Inside:
    """Gives the paths of one tree. Its root is taken as it is."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._folder: Optional[bytes] = None
        self._fd = -1
        self._can = os.path.isdir("/proc/self/fd")
        self._finalizer: Optional[weakref.finalize[Any, Inside]] = None

    def path(self, rel: bytes) -> bytes:
        """Return a path that is valid until the next one is asked for.

        Raises: OSError; NotADirectoryError when a directory above it has become a link.
        """
        if not rel or not self._can:
            return self._plain(rel)
        folder, _, name = rel.rpartition(b"/")
        if folder != self._folder:
            self._enter(folder)
        return self._prefix + name

    @property
    def _prefix(self) -> bytes:
        return b"/proc/self/fd/%d/" % self._fd

    def named(self, path: bytes) -> bytes:
        """Return the path that a person knows for one that ``path`` gave, as it stands in an error."""
        if self._fd < 0 or not path.startswith(self._prefix):
            return path
        return self._plain(b"/".join(part for part in (self._folder or b"", path[len(self._prefix) :]) if part))

    def _plain(self, rel: bytes) -> bytes:
        return self._root + b"/" + rel if rel else self._root

    def _enter(self, folder: bytes) -> None:
        self.close()
        fd = os.open(self._root, FLAGS)
        for part in folder.split(b"/") if folder else []:
            try:
                inner = os.open(part, FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            except OSError as error:
                error.filename = self._plain(folder)
                raise
            finally:
                os.close(fd)
            fd = inner
        self._folder, self._fd = folder, fd
        self._finalizer = weakref.finalize(self, os.close, fd)

    def close(self) -> None:
        """Let go of the directory."""
        if self._finalizer is not None:
            self._finalizer()
        self._folder, self._fd, self._finalizer = None, -1, None
