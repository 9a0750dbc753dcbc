"""Text from outside cannot steer a terminal."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.core.sanitize import one_line, plain_text, whole_text

PIECES = st.sampled_from(["\x1b[31m", "\x1b]0;t\x07", "\x1b[?25l", "\x1bP", "\x9b1m", "\r", "\n", "\t", "a", "ü"])
STORMS = st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join)


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("50%\rdone\r\nnext\tcell", "50%done\nnext\tcell"),
        ("\x1b(Bplain\x1bc", "plain"),
        ("nul\x00bell\x07del\x7fcsi\x9b", "nulbelldelcsi"),
        ("grüße 漢字", "grüße 漢字"),
    ],
)
def test_control_sequences_are_removed(raw: str, plain: str) -> None:
    assert plain_text(raw) == plain


@given(STORMS)
def test_nothing_that_controls_a_terminal_is_left(raw: str) -> None:
    plain = plain_text(raw)
    assert all(char in "\n\t" or (char >= " " and not "\x7f" <= char <= "\x9f") for char in plain)
    assert plain_text(plain) == plain


@given(STORMS, st.integers(1, 50))
def test_one_line_is_one_short_line(raw: str, limit: int) -> None:
    line = one_line(raw, limit)
    assert len(line) <= limit
    assert "\n" not in line


@pytest.mark.parametrize("storm", ["\x1b[", "\x1b]0;", "\x1b[0;", "\x1b" + "0" * 50, "\x1b[" + " " * 50])
def test_an_escape_storm_is_handled_in_linear_time(storm: str) -> None:
    begin = time.perf_counter()
    assert "\x1b" not in plain_text(storm * 20_000)
    assert time.perf_counter() - begin < 5


JSON = st.recursive(
    st.none() | st.integers() | st.text(st.characters(), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(JSON)
def test_whole_text_can_be_encoded_and_keeps_all_that_could_be_before(value: Any) -> None:
    whole = whole_text(value)
    text = json.dumps(whole, ensure_ascii=False)
    text.encode()
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        assert "\ufffd" in text
    else:
        assert whole == value
