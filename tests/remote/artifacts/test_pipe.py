"""The worker's end of a transfer reads its standard input itself."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest

from vaws_mcp.worker.engine.artifacts.link import Link, LinkLost
from vaws_mcp.worker.engine.artifacts.pipe import PipeInbox


class Pipe:
    def __init__(self) -> None:
        read_fd, self.write_fd = os.pipe()
        self.source = io.BufferedReader(io.FileIO(read_fd), 1 << 12)

    def write(self, data: bytes) -> None:
        os.write(self.write_fd, data)

    def hang_up(self) -> None:
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    opened = Pipe()
    yield opened
    opened.hang_up()
    opened.source.close()


def silent(_chunks: list[bytes]) -> None:
    """Send nothing."""


def test_what_the_reader_has_read_ahead_comes_first(pipe: Pipe) -> None:
    pipe.write(b"frame" + b"ahead")
    assert pipe.source.read(5) == b"frame"
    inbox = PipeInbox(pipe.source)
    assert inbox.waiting
    pipe.write(b"later")
    assert bytes(inbox.take(5)) == b"ahead"
    assert bytes(inbox.take(5)) == b"later"
    assert not inbox.waiting
    assert os.get_blocking(pipe.source.fileno())


def test_a_silence_ends_the_wait(pipe: Pipe) -> None:
    with pytest.raises(LinkLost, match="nothing came"):
        PipeInbox(pipe.source).take(0.01)


def test_a_hang_up_is_seen_without_reading_and_loses_no_byte(pipe: Pipe) -> None:
    inbox = PipeInbox(pipe.source)
    assert inbox.closed is None
    pipe.write(b"last")
    pipe.hang_up()
    assert inbox.closed == "the connection ended"
    assert inbox.waiting
    assert bytes(inbox.take(5)) == b"last"
    for _ in range(2):
        with pytest.raises(LinkLost, match="the connection ended"):
            inbox.take(5)


def test_a_closed_inbox_gives_nothing_more(pipe: Pipe) -> None:
    inbox = PipeInbox(pipe.source)
    pipe.write(b"too late")
    inbox.close("given up")
    assert not inbox.waiting
    with pytest.raises(LinkLost, match="given up"):
        inbox.take(5)


def test_a_list_that_comes_in_many_pieces_is_whole_though_the_memory_is_used_again(pipe: Pipe) -> None:
    link = Link(PipeInbox(pipe.source), silent)
    expected = b"".join(b"%06d" % number for number in range(2000))
    pipe.write(expected[:6000])
    assert link.exactly(10) == expected[:10]
    pipe.write(expected[6000:])
    assert link.exactly(len(expected) - 10) == expected[10:]
