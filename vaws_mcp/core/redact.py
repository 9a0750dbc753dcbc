"""Keep secrets out of everything that is written down or sent back."""

import re
from collections.abc import Mapping
from typing import Any

SECRET_WORDS = frozenset({"TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"})
NOT_SECRET = frozenset({"HOST_KEY", "HOSTKEY"})
MASK = "***"

# A blank may be escaped, as in the argument string ``--header Authorization=Bearer\ abc``.
_SCHEME = r"\b(?:bearer|basic)|\bauthorization[\"']?\s*[:=]\s*[\"']?token"
_BEARER = re.compile(rf"(?i)({_SCHEME})\\*\s+[A-Za-z0-9._~+/=-]{{8,}}")
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_USERINFO = re.compile(r"(?<=://)[^/\s?#]+(?=@)|(?<![^\s\"'(])[^\s/@:\"'(]+:[^\s/@\"']+(?=@)")
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s&]+)"
# What a shell takes for one word: pieces in quotes, escaped blanks, and what touches them.
_WORD = r"(?=[^\s&])(?:\$?\"(?:\\.|[^\"\\])*\"|\$?'[^']*'|\\.|[^\s&\"'\\])*[^\s&]*"
# Only names that end in a secret word are looked at, so that the word before one ("export TOKEN=...") does not take it
# for its value. ``NAME value`` is an assignment only for a flag; in prose "the key is" must stay readable.
_NAME = rf"(?:[A-Za-z0-9_-]*[_-])?(?:{'|'.join(sorted(SECRET_WORDS, key=len, reverse=True))})"
_LEFT = rf"(?is)(?<![A-Za-z0-9_/.-])(?:({_NAME})"
_ASSIGNED = re.compile(_LEFT + rf"([\"']?[ \t]*=[ \t]*)|(--?{_NAME})([ \t]+)){_WORD}")
_STATED = re.compile(_LEFT + rf"([\"']?[ \t]*:[ \t]*)){_VALUE}")


def is_secret_name(name: str) -> bool:
    """Tell whether a variable, flag or field of this name holds a secret: its last part is TOKEN, KEY, SECRET, ...

    ``MAX_TOKENS``, ``TOKENIZER`` and ``host_key`` are no secrets.
    """
    plain = name.lstrip("-").replace("-", "_").upper()
    return plain not in NOT_SECRET and plain.rsplit("_", 1)[-1] in SECRET_WORDS


def _mask_assignment(match: re.Match[str]) -> str:
    name, separator = (match[1], match[2]) if match[1] else (match[3], match[4])
    return f"{name}{separator}{MASK}" if is_secret_name(name) else match[0]


def redact_text(text: str) -> str:
    """Mask private keys, bearer strings, user-info in URLs and ``NAME=value`` of secret names inside free text."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _BEARER.sub(lambda match: f"{match.group(1)} {MASK}", text)
    text = _USERINFO.sub(MASK, text)
    return _STATED.sub(_mask_assignment, _ASSIGNED.sub(_mask_assignment, text))


def redact(value: Any, name: str = "") -> Any:
    """Return a copy of a JSON-like value with secrets masked, by field name and inside strings."""
    if isinstance(value, Mapping):
        # Everything below a secret name is secret, whatever the names inside are.
        return {str(key): redact(item, name if is_secret_name(name) else str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return _redact_list(list(value), name)
    if isinstance(value, str):
        return MASK if value and is_secret_name(name) else redact_text(value)
    return value


def _redact_list(items: list[Any], name: str) -> list[Any]:
    """Mask items, also a word that follows a secret flag, as in ``["--api-key", "abc"]``."""
    masked: list[Any] = []
    after_secret_flag = False
    for item in items:
        if after_secret_flag and isinstance(item, str) and not item.startswith("-"):
            masked.append(MASK)
        else:
            masked.append(redact(item, name))
        after_secret_flag = isinstance(item, str) and item.startswith("-") and "=" not in item and is_secret_name(item)
    return masked
