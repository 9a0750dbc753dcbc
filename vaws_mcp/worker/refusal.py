"""The one error that a method raises on purpose, and how operating system errors become it."""

from __future__ import annotations

import errno
from typing import Any, Dict, Optional, Tuple

_CODES: Dict[int, Tuple[str, str]] = {
    errno.ENOENT: ("not_found", "No such file or directory"),
    errno.EACCES: ("permission_denied", "Permission denied"),
    errno.EPERM: ("permission_denied", "Operation not permitted"),
    errno.EISDIR: ("is_directory", "It is a directory"),
    errno.ENOTDIR: ("not_a_directory", "A part of the path is not a directory"),
    errno.EEXIST: ("exists", "It exists already"),
    errno.ENOTEMPTY: ("exists", "The directory is not empty"),
    errno.ENOSPC: ("disk_full", "No space left on the device"),
    errno.EDQUOT: ("disk_full", "The disk quota is used up"),
    errno.EROFS: ("read_only", "The file system is read-only"),
    errno.ENAMETOOLONG: ("bad_path", "The name is too long"),
    errno.ELOOP: ("bad_path", "Too many symbolic links"),
    errno.EBUSY: ("busy", "It is in use, perhaps as a mount point"),
    errno.ETXTBSY: ("busy", "The program is being executed"),
    errno.EMFILE: ("resource_limit", "Too many open files in the worker"),
    errno.ENFILE: ("resource_limit", "Too many open files on the machine"),
    errno.EAGAIN: ("resource_limit", "The process limit is reached or the resource is busy"),
    errno.ENOMEM: ("resource_limit", "Not enough memory"),
    errno.ENOEXEC: ("not_executable", "The file is not a program"),
}


class Refusal(Exception):  # noqa: N818 - it is an answer, not a malfunction
    """A request that ends with an error: which code, whose layer, what to do next."""

    def __init__(
        self,
        code: str,
        message: str,
        layer: str = "remote_env",
        *,
        hint: Optional[str] = None,
        retry_safe: bool = True,
        details: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.layer = layer
        self.hint = hint
        self.retry_safe = retry_safe
        self.details = details

    def as_error(self) -> Dict[str, Any]:
        """Return the error object of an answer frame; ``details`` only when there are some."""
        error: Dict[str, Any] = {
            "code": self.code,
            "layer": self.layer,
            "message": self.message,
            "hint": self.hint,
            "retry_safe": self.retry_safe,
        }
        if self.details is not None:
            error["details"] = self.details
        return error


def bad_request(message: str, hint: Optional[str] = None) -> Refusal:
    """Return the refusal of a request whose parameters make no sense."""
    return Refusal("bad_params", message, "caller", hint=hint)


def from_os_error(error: OSError, path: Optional[str] = None) -> Refusal:
    """Turn an operating system error into a refusal that names the path."""
    code, text = _CODES.get(error.errno or 0, ("io_error", error.strerror or str(error)))
    name = path if path is not None else error.filename
    if isinstance(name, bytes):
        name = name.decode("utf-8", "surrogateescape")
    message = f"{name}: {text}" if name else text
    return Refusal(code, message, "remote_env")
