r"""File names that are not UTF-8, as text that can be turned back.

Names travel as plain text while they are UTF-8. When one name of an answer is not, all names of that answer are
escaped: a backslash is written ``\\`` and a byte that is not UTF-8 ``\xNN``, and the answer says ``escaped: true``.
"""

from __future__ import annotations

import re
from typing import List, Sequence

from ..refusal import bad_request

_SURROGATE = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(rb"\\(\\|x[0-9a-fA-F]{2}|)")


def is_text(name: bytes) -> bool:
    """Tell whether a name is UTF-8."""
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def shown(names: Sequence[bytes], escaped: bool) -> List[str]:
    """Return names as text, all of them escaped when ``escaped`` is set."""
    if not escaped:
        return [name.decode("utf-8") for name in names]
    return [_escape(name) for name in names]


def _escape(name: bytes) -> str:
    text = name.replace(b"\\", b"\\\\").decode("utf-8", "surrogateescape")
    return _SURROGATE.sub(lambda found: "\\x%02x" % (ord(found.group()) - 0xDC00), text)


def given(text: str, escaped: bool) -> bytes:
    """Return the bytes of a name that a request gives, escaped or plain.

    Raises: Refusal ``bad_params`` for a backslash that escapes nothing, or NUL.
    """
    raw = text.encode("utf-8", "surrogateescape")
    if escaped:
        raw = _ESCAPE.sub(_unescape, raw)
    if b"\0" in raw:
        raise bad_request(f"the path {text!r} has a NUL byte")
    return raw


def _unescape(found: re.Match[bytes]) -> bytes:
    code = found.group(1)
    if not code:
        raise bad_request("in an escaped path a backslash is followed by a backslash or by x and two hex digits")
    return b"\\" if code == b"\\" else bytes([int(code[1:], 16)])
