from __future__ import annotations

import os
import tempfile
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.worker.engine import lines as module
from vaws_mcp.worker.engine.lines import LineCutter, Lines, Window, whole_characters

pieces = st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"\r\n", b"\xc3\xa9", b"x" * 40])
text = st.lists(pieces, max_size=40).map(b"".join)


def reference_lines(raw: bytes) -> list[bytes]:
    parts = raw.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def read(raw: bytes, window: Window, chunk: int) -> tuple[module.Page, module.Whole]:
    with tempfile.TemporaryFile() as stream, mock.patch.object(module, "CHUNK_BYTES", chunk):
        stream.write(raw)
        stream.flush()
        lines = Lines(stream.fileno(), os.fstat(stream.fileno()).st_size, lambda: None)
        whole = lines.read_whole()
        first = window.offset if window.offset > 0 else max(1, whole.total_lines + window.offset + 1)
        return lines.page_at(first, window), whole


@given(text, st.integers(-8, 12).filter(bool), st.none() | st.integers(1, 6), st.integers(1, 50))
def test_a_page_is_the_slice_of_the_lines(raw: bytes, offset: int, limit: int | None, chunk: int) -> None:
    page, whole = read(raw, Window(offset, limit, 10_000, 1000), chunk)
    expected = reference_lines(raw)
    start = offset - 1 if offset > 0 else max(0, len(expected) + offset)
    stop = None if limit is None else start + limit
    assert page.lines == expected[start:stop]
    assert whole.total_lines == len(expected)
    assert page.full is (stop is not None and stop < len(expected))


@given(text, st.integers(1, 60), st.integers(1, 50))
def test_following_next_offset_reads_every_line_once(raw: bytes, max_bytes: int, chunk: int) -> None:
    collected: list[bytes] = []
    offset = 1
    while True:
        page, _ = read(raw, Window(offset, None, max_bytes, 1000), chunk)
        collected += page.lines
        if not page.full:
            break
        assert page.lines
        assert len(page.lines) == 1 or sum(map(len, page.lines)) <= max_bytes
        offset += len(page.lines)
    assert b"".join(collected) == raw


@given(text, st.integers(1, 12), st.integers(1, 12), st.data())
def test_offsets_need_no_count_of_the_whole(raw: bytes, offset: int, chunk: int, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, 5))
    with tempfile.TemporaryFile() as stream, mock.patch.object(module, "CHUNK_BYTES", chunk):
        stream.write(raw)
        stream.flush()
        page = Lines(stream.fileno(), len(raw), lambda: None).page_at(offset, Window(offset, limit, 9999, 999))
    assert page.lines == reference_lines(raw)[offset - 1 : offset - 1 + limit]


@given(text, st.integers(1, 8), st.integers(1, 30))
def test_cut_lines_hold_no_more_than_allowed(raw: bytes, most: int, chunk: int) -> None:
    cutter = LineCutter(most)
    found = [line for start in range(0, len(raw), chunk) for line in cutter.feed(raw[start : start + chunk])]
    rest = cutter.rest()
    found += [] if rest is None else [rest]
    expected = reference_lines(raw)
    assert len(found) == len(expected)
    for line, full in zip(found, expected, strict=True):
        content = full.rstrip(b"\n")
        assert line.cut is (len(content) > most)
        assert content.startswith(line.kept.rstrip(b"\n"))
        assert len(line.kept.rstrip(b"\n")) <= most


@given(st.text(max_size=20), st.integers(0, 80))
def test_a_cut_keeps_only_whole_characters(words: str, size: int) -> None:
    raw = words.encode("utf-8", "surrogatepass")[:size]
    kept = raw[: whole_characters(raw)]
    assert len(raw) - len(kept) <= 3
    kept.decode("utf-8", "surrogatepass")


@given(
    text,
    st.integers(-12, -1),
    st.none() | st.integers(1, 6),
    st.integers(1, 60),
    st.integers(2, 50),
    st.integers(1, 50),
)
def test_the_last_lines_are_the_same_without_counting_those_before(
    raw: bytes, offset: int, limit: int | None, max_bytes: int, max_line_bytes: int, chunk: int
) -> None:
    window = Window(offset, limit, max_bytes, max_line_bytes)
    expected, whole = read(raw, window, chunk)
    with tempfile.TemporaryFile() as stream, mock.patch.object(module, "CHUNK_BYTES", chunk):
        stream.write(raw)
        stream.flush()
        page = Lines(stream.fileno(), len(raw), lambda: None).last_page(window)
    assert (page.lines, page.full) == (expected.lines, expected.full)
    assert page.first_line is None
    assert page.truncated_lines == [number - whole.total_lines - 1 for number in expected.truncated_lines]
