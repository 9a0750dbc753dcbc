"""Make untrusted text safe to show in a terminal."""

import re
from typing import Any

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x1b\\|\x07|$)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]",  # two-character escapes
    re.DOTALL,
)
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain_text(text: str) -> str:
    """Remove terminal control sequences and control characters; line breaks and tabs stay, CRLF becomes LF."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, limit: int = 200) -> str:
    """Return the text as one safe line of at most ``limit`` characters."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def whole_text(value: Any) -> Any:
    """Return a copy of a JSON-like value in which what stands for bytes that are no UTF-8 is shown as �."""
    if isinstance(value, str):
        return _LONE_SURROGATES.sub("�", value)
    if isinstance(value, dict):
        return {whole_text(key): whole_text(item) for key, item in value.items()}
    return [whole_text(item) for item in value] if isinstance(value, list | tuple) else value
