"""A ref can never be read as an option, a range or a path outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.core.failures import Refused
from vaws_mcp.source.refs import check_ref

GOOD = [
    "main",
    "v0.9.1",
    "feature/x_1",
    "a1b2c3d",
    "pr:123",
    "#7",
    "base-of:pr:5",
    "base-of:main",
    "HEAD~2",
    "origin/main",
]
BAD = [
    "",
    "-x",
    "--upload-pack=evil",
    "base-of:",
    "base-of:-x",
    "a..b",
    "a b",
    "a:b",
    "pr:",
    "pr:x",
    "#",
    "x.lock",
    "/x",
    "a\n",
]


@pytest.mark.parametrize("ref", GOOD)
def test_refs_are_accepted(ref: str) -> None:
    check_ref(ref)


@pytest.mark.parametrize("ref", BAD)
def test_what_is_no_ref_is_refused_by_name(ref: str) -> None:
    with pytest.raises(Refused) as caught:
        check_ref(ref)
    assert repr(ref) in caught.value.message


@given(st.text(max_size=15) | st.from_regex(r"(base-of:)?[-.a-z0-9/@{}^~+:#*?\[ ]{0,12}", fullmatch=True))
def test_nothing_dangerous_is_ever_accepted(ref: str) -> None:
    try:
        check_ref(ref)
    except Refused:
        return
    inner = ref.removeprefix("base-of:")
    assert inner
    assert not inner.startswith("-")
    assert ".." not in inner
    assert not set(inner) & set(" \t\n\0*?[\\$`;|&<>\"'")
