"""The signature file is data that is checked when it is read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from vaws_mcp.core.failures import Failure
from vaws_mcp.serving.signatures import SCHEMA, known_signatures, parse_signatures
from vaws_mcp.serving.timeline import ORDER

GOOD: dict[str, Any] = {
    "id": "one",
    "class": "oom",
    "role": "primary",
    "pattern": "out of memory",
    "hint": "Use less memory.",
    "example": "it is out of memory",
}


def written(*signatures: dict[str, Any], **more: Any) -> bytes:
    return orjson.dumps({"schema": SCHEMA, "signatures": signatures, "markers": [], **more})


def test_a_correct_file_is_read() -> None:
    (only,) = parse_signatures(written(GOOD)).signatures
    assert (only.id, only.cls, only.quiet) == ("one", "oom", False)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"pattern": "("}, "regular expression"),
        ({"role": "main"}, "role"),
        ({"class": "Out Of Memory"}, "class"),
        ({"hint": ""}, "hint"),
        ({"example": "something else"}, "own example"),
        ({"needs": ["absent"]}, "own example"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_entry_is_named(change: dict[str, Any], word: str) -> None:
    with pytest.raises(Failure, match=word) as caught:
        parse_signatures(written({**GOOD, **change}))
    assert caught.value.code == "signatures_malformed"


def test_an_id_that_occurs_twice_is_named() -> None:
    with pytest.raises(Failure, match="one"):
        parse_signatures(written(GOOD, GOOD))


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", written(GOOD, schema="vaws.other.v1"), written()])
def test_a_file_that_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(Failure):
        parse_signatures(raw)


def test_every_marker_names_a_phase_in_the_order() -> None:
    assert {marker.phase for marker in known_signatures().markers} <= set(ORDER)


def test_every_hint_is_a_sentence() -> None:
    for signature in known_signatures().signatures:
        assert signature.hint[0].isupper() or signature.hint.startswith(("tp ", "vLLM", "torch")), signature.id
        assert signature.hint.endswith("."), signature.id
