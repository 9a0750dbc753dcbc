"""Frames between the laptop and the worker.

A frame is an 8 byte header, a JSON head and a binary body::

    !II (length of head, length of body) | head, UTF-8 JSON object | body, raw bytes

Text never travels in the body's place of bytes: file contents, process output and standard input are bodies, so
nothing is escaped and nothing that is not UTF-8 is lost.

From the laptop:

=====================================================================  ==========================================
head                                                                   meaning
=====================================================================  ==========================================
``{"id": 7, "call": "run", "params": {...}, "deadline_s": 30.0}``      a request; the body belongs to the method
``{"id": 7, "cancel": true}``                                          end request 7 and drain its process family
``{"id": 7, "more": "stdin", "eof": false}``                           more standard input for request 7 (body)
=====================================================================  ==========================================

From the worker, first ``MAGIC`` (so that a banner printed by a shell before it can be told apart), then frames:

=====================================================================  ==========================================
``{"hello": {...}}``                                                   once, see ``HELLO_FIELDS``
``{"id": 7, "event": "output", "stream": "stdout", "offset": 0}``      output while it runs (body), when asked for
``{"id": 7, "event": "progress", ...}``                                anything a long method reports
``{"id": 7, "result": {...}}``                                         the answer (body belongs to the method)
``{"id": 7, "error": {"code": ..., "layer": ..., "message": ...}}``    the request failed; nothing follows
=====================================================================  ==========================================

Each request has exactly one ``result`` or ``error``, also after ``cancel``.
"""

import json
import struct
from typing import Any, Callable, Dict, List, Optional, Tuple

PROTOCOL = 1
MAGIC = b"\x00VAWS-WORKER-1\n"
HEADER = struct.Struct("!II")
HEADER_BYTES = HEADER.size
MAX_HEAD_BYTES = 64 << 20
MAX_BODY_BYTES = 1 << 30

HELLO_FIELDS = ("protocol", "pid", "python", "boot_id", "uid", "user", "home", "hostname", "platform", "simulated")

Head = Dict[str, Any]


class FrameError(Exception):
    """The byte stream is not a sequence of frames; the connection cannot be used any further."""


def dump_head(head: Head) -> bytes:
    """Encode a frame's head as compact UTF-8 JSON (lone surrogates from file names survive as escapes)."""
    return json.dumps(head, separators=(",", ":")).encode("ascii")


def encode(head: Head, body: bytes = b"", dump: Callable[[Head], bytes] = dump_head) -> List[bytes]:
    """Return the parts of one frame, ready for ``writelines``; the body is not copied.

    Raises: FrameError when head or body is over its limit.
    """
    raw = dump(head)
    if len(raw) > MAX_HEAD_BYTES or len(body) > MAX_BODY_BYTES:
        raise FrameError("frame too large: head %d, body %d bytes" % (len(raw), len(body)))
    prefix = HEADER.pack(len(raw), len(body)) + raw
    return [prefix, body] if body else [prefix]


def lengths(header: bytes) -> Tuple[int, int]:
    """Split a header into the lengths of head and body.

    Raises: FrameError when a length is impossible, as it is when something else wrote into the stream.
    """
    head_bytes, body_bytes = HEADER.unpack(header)
    if head_bytes > MAX_HEAD_BYTES or body_bytes > MAX_BODY_BYTES or head_bytes < 2:
        raise FrameError("not a frame: header %r" % (header,))
    return head_bytes, body_bytes


def load_head(raw: bytes) -> Head:
    """Decode a frame's head.

    Raises: FrameError when it is not a JSON object.
    """
    try:
        head = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise FrameError("head is not JSON: %s" % error) from None
    if not isinstance(head, dict):
        raise FrameError("head is not an object")
    return head


def read_frame(read_exactly: Callable[[int], Optional[bytes]]) -> Optional[Tuple[Head, bytes]]:
    """Read one frame with ``read_exactly(n)``, which gives n bytes, or None at a clean end of the stream.

    Raises: FrameError when the stream ends inside a frame or holds something else.
    """
    header = read_exactly(HEADER_BYTES)
    if header is None:
        return None
    head_bytes, body_bytes = lengths(header)
    raw = read_exactly(head_bytes)
    body = read_exactly(body_bytes) if body_bytes else b""
    if raw is None or body is None:
        raise FrameError("the stream ended inside a frame")
    return load_head(raw), body
