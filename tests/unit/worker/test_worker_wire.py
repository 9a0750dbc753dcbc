from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.worker import wire

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
heads = st.dictionaries(st.text(), json_values, max_size=5)


def reader(raw: bytes) -> Any:
    stream = io.BytesIO(raw)

    def read_exactly(count: int) -> bytes | None:
        chunk = stream.read(count)
        return chunk if len(chunk) == count else None

    return read_exactly


@given(st.lists(st.tuples(heads, st.binary(max_size=300)), max_size=5))
def test_frames_come_back_as_they_were_sent(frames: list[tuple[dict[str, Any], bytes]]) -> None:
    read = reader(b"".join(b"".join(wire.encode(head, body)) for head, body in frames))
    for head, body in frames:
        assert wire.read_frame(read) == (head, body)
    assert wire.read_frame(read) is None


def test_a_lone_surrogate_of_a_file_name_survives() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert wire.read_frame(reader(b"".join(wire.encode({"path": name})))) == ({"path": name}, b"")


@given(heads, st.binary(max_size=50), st.data())
def test_a_cut_frame_is_refused(head: dict[str, Any], body: bytes, data: st.DataObject) -> None:
    raw = b"".join(wire.encode(head, body))
    cut = data.draw(st.integers(wire.HEADER_BYTES, len(raw) - 1))
    with pytest.raises(wire.FrameError):
        wire.read_frame(reader(raw[:cut]))


@pytest.mark.parametrize("raw", [b"Welcome!\nmore text", b"\0\0\0\2\0\0\0\0[]", b"\0\0\0\2\0\0\0\0\xff\xff", b"\0" * 8])
def test_what_is_no_frame_is_refused(raw: bytes) -> None:
    with pytest.raises(wire.FrameError):
        wire.read_frame(reader(raw))


def test_a_head_over_its_limit_is_refused() -> None:
    with pytest.raises(wire.FrameError, match="too large"):
        wire.encode({}, dump=lambda _head: b"x" * (wire.MAX_HEAD_BYTES + 1))
