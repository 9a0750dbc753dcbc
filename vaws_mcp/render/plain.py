"""Strip untrusted text for a document: on top of control characters, what only changes how a reader sees the rest."""

import re

from vaws_mcp.core.sanitize import plain_text

# Direction overrides and invisible characters can make a label look like another one; a lone surrogate cannot be
# written as UTF-8; XML has no place for the two last code points of the basic plane.
_UNSEEN = re.compile("[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def block(text: str) -> str:
    """Return text whose line breaks are kept and whose other invisible characters are gone."""
    return _SURROGATE.sub("\ufffd", _UNSEEN.sub("", plain_text(text)))


def line(text: str) -> str:
    """Return text as one line, with runs of blanks joined."""
    return " ".join(block(text).split())
