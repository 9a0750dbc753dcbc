"""Answers to lines that are no message: a client that waits for an answer must get one."""

import json
import logging
import re
from typing import Any

import mcp_types as types

from vaws_mcp.core.sanitize import one_line

log = logging.getLogger(__name__)

# Where clients write the id of a request: next to the beginning, or at the very end.
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")'
_FIRST = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*){0,2}' + _ID)
_LAST = re.compile(rb"(?<!\\)" + _ID + rb"\s*\}\s*\Z")
_TAIL_BYTES = 400


def answer_to(line: bytes, why: str) -> types.JSONRPCError | None:
    """Return the answer to a line that is no valid message; None when nobody waits for one.

    Its id is that of the request, as far as one can be found, else null.
    """
    why = one_line(why, 300)
    code = types.PARSE_ERROR
    request_id = _id_in_text(line)
    try:
        # More is accepted here than in a message: lone surrogates, bytes that are no UTF-8.
        said: Any = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        pass
    else:
        if isinstance(said, dict):
            if "id" not in said or "method" not in said:
                log.warning("a notification or answer of the client cannot be read: %s", why)
                return None
            request_id = _usable(said["id"])
        code = types.INVALID_REQUEST
    log.warning("a message of the client cannot be read: %s", why)
    error = types.ErrorData(code=code, message=f"The message cannot be read: {why}")
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def has_id(line: bytes) -> bool:
    """Tell whether what was taken for a notification is a request with an id that no request can have."""
    return b'"id"' in line and "id" in json.loads(line)


def _id_in_text(line: bytes) -> types.RequestId | None:
    found = _FIRST.match(line) or _LAST.search(line[-_TAIL_BYTES:])
    return _usable(json.loads(found[1].decode("utf-8", "replace"))) if found else None


def _usable(request_id: Any) -> types.RequestId | None:
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    try:
        str(request_id).encode()
    except UnicodeEncodeError:
        return None
    return request_id
