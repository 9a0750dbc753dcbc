"""The worker is found behind any banner, pushed when needed, and refused with reasons."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from fakes import FakeStream, frame, hello
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint import connect
from vaws_mcp.endpoint.archive import NEWER_PYTHONS, PYTHONS, worker_archive
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.startup import MAX_BANNER, greet
from vaws_mcp.worker.wire import MAGIC

START = b"\0VAWS-BOOT start 3.11.7\n"
OLD = b"\0VAWS-BOOT old 3.6.15\n"
NONE = b"\0VAWS-BOOT none -\n"


@given(st.binary(max_size=60).filter(lambda raw: b"\0" not in raw), st.binary(max_size=20), st.data())
def test_any_banner_and_any_pieces_give_the_same_greeting(banner: bytes, rest: bytes, data: st.DataObject) -> None:
    raw = banner + START + b"a module that prints\n" + hello(user="u") + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True) if begin < end]
    stream = FakeStream(*pieces)
    found = anyio.run(greet, "box", stream)
    assert (found.facts["user"], found.pushed) == ("u", False)
    assert (found.rest + b"".join(stream.pieces)) == rest
    assert stream.sent == b""


@pytest.mark.asyncio
async def test_the_archive_is_pushed_only_when_it_is_asked_for() -> None:
    stream = FakeStream(b"\0VAWS-BOOT need 3.8.0\n", START + hello())
    assert (await greet("box", stream)).pushed
    assert stream.sent == worker_archive()[1]


@pytest.mark.asyncio
async def test_an_end_during_the_start_is_told_with_the_endpoints_words() -> None:
    stream = FakeStream(b"This account is \x1b[31mnot\x1b[0m available.\n", stderr=b"bash: exec: denied\n")
    with pytest.raises(Failure) as caught:
        await greet("box", stream)
    assert (caught.value.code, caught.value.layer) == ("worker_failed", "remote_env")
    assert "This account is not available. bash: exec: denied" in caught.value.message


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"x" * (MAX_BANNER + 1), "never said hello"),
        (START + MAGIC + b"\xff" * 64, "hello is unreadable"),
        (START + MAGIC + frame({"hallo": {}}), "hello is unreadable"),
        (START + MAGIC + frame({"hello": {"protocol": 99}}), "protocol 99"),
    ],
)
async def test_what_is_no_worker_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(Failure, match=why):
        await greet("box", FakeStream(raw, ends=False))


class Openings:
    """Stands for the transport: each start of a worker gets the next stream."""

    def __init__(self, *answers: bytes) -> None:
        self.streams = [FakeStream(answer, ends=False) for answer in answers]
        self.left = list(self.streams)
        self.lines: list[str] = []

    async def open(
        self, _ctx: Context, _config: EndpointConfig, argv: list[str], _window: int | None
    ) -> tuple[FakeStream, float]:
        self.lines.append(argv[2])
        return self.left.pop(0), 0.0


async def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: EndpointConfig, *answers: bytes
) -> tuple[Openings, connect.Endpoint]:
    openings = Openings(*answers)
    monkeypatch.setattr(connect, "_open", openings.open)
    async with Resources() as resources:
        ctx = Context(state_dir=tmp_path, resources=resources)
        try:
            return openings, await connect.connected(ctx, config)
        finally:
            # What was not good enough is closed, so that no half-started worker stays behind.
            assert all(stream.closed for stream in openings.streams[: len(answers) - 1])


BOX = EndpointConfig(name="box", host="h")
OWN = EndpointConfig(name="box", host="h", python="/opt/py")


@pytest.mark.asyncio
@pytest.mark.parametrize("first", [OLD, NONE])
async def test_a_newer_python_is_tried_when_the_usual_one_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    openings, endpoint = await start(tmp_path, monkeypatch, BOX, first, START + hello())
    assert endpoint.hello["pid"] == 7
    for names, line in zip((PYTHONS, NEWER_PYTHONS), openings.lines, strict=True):
        assert line.startswith(f"for p in {' '.join(names)}; do")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("config", "answers", "words"),
    [
        (BOX, (OLD, NONE), "its python3 is 3.6.15"),
        (BOX, (OLD, OLD), "its python3 is 3.6.15"),
        (BOX, (NONE, NONE), "it has no python3"),
        (OWN, (OLD,), "its /opt/py is 3.6.15"),
        (OWN, (NONE,), "it has no /opt/py"),
    ],
)
async def test_no_fitting_python_is_an_error_that_names_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: EndpointConfig, answers: tuple[bytes, ...], words: str
) -> None:
    with pytest.raises(Failure) as caught:
        await start(tmp_path, monkeypatch, config, *answers)
    assert (caught.value.code, caught.value.layer) == ("python_missing", "remote_env")
    assert words in caught.value.message
    assert "3.8" in caught.value.message
    assert "endpoints.toml" in str(caught.value.hint)
