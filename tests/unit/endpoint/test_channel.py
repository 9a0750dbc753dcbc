"""Many requests share one stream, each gets its own answer, and a lost stream is never a silent success."""

from __future__ import annotations

import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fakes import FakePipe, frame
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.core.failures import Failure, TimedOut
from vaws_mcp.endpoint import channel as channel_module
from vaws_mcp.endpoint.channel import Answer, Channel
from vaws_mcp.worker.wire import HEADER


async def settled(pipe: FakePipe, count: int) -> None:
    """Wait until so many frames were sent."""
    with anyio.fail_after(5):
        while len(pipe.sent) < count:
            await anyio.lowlevel.checkpoint()


@pytest.mark.asyncio
async def test_answers_in_any_order_reach_their_callers() -> None:
    pipe = FakePipe()
    channel, answers = Channel("box", pipe), dict[int, Answer]()

    async def call(number: int) -> None:
        answers[number] = await channel.call("echo", {"n": number}, body=b"%d" % number)

    async with anyio.create_task_group() as group:
        for number in (1, 2, 3):
            group.start_soon(call, number)
        await settled(pipe, 3)
        for head, body in reversed(pipe.sent):
            channel.feed(frame({"id": head["id"], "result": head["params"]}, body * 2))
    assert answers == {n: Answer({"n": n}, b"%d%d" % (n, n)) for n in (1, 2, 3)}
    assert {head["call"] for head, _ in pipe.sent} == {"echo"}


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=4), st.data())
def test_any_pieces_of_the_stream_give_the_same_answers(bodies: list[bytes], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(1, len(bodies) + 1)))
    raw = b"".join(
        frame({"id": n, "event": "progress"}, b"p") + frame({"id": n, "result": {"n": n}}, bodies[n - 1]) for n in order
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    pieces = [raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    async def exchange() -> tuple[list[Answer | None], list[int]]:
        pipe, events = FakePipe(), list[int]()
        channel = Channel("box", pipe)
        found: list[Answer | None] = [None] * len(bodies)

        async def call(number: int) -> None:
            found[number - 1] = await channel.call("m", {}, on_event=lambda head, _body: events.append(head["id"]))

        async with anyio.create_task_group() as group:
            for number in range(1, len(bodies) + 1):
                group.start_soon(call, number)
                await settled(pipe, number)
            for piece in pieces:
                channel.feed(piece)
        return found, events

    found, events = anyio.run(exchange)
    assert found == [Answer({"n": n}, body) for n, body in enumerate(bodies, start=1)]
    assert events == list(order)


@pytest.mark.asyncio
@pytest.mark.parametrize("retry_safe", [True, False])
async def test_a_lost_connection_leaves_the_outcome_unknown(retry_safe: bool) -> None:
    pipe = FakePipe()
    channel = Channel("box", pipe)
    failures: list[Failure] = []
    async with anyio.create_task_group() as group:

        async def call() -> None:
            with pytest.raises(Failure) as caught:
                await channel.call("run", {}, retry_safe=retry_safe)
            failures.append(caught.value)

        group.start_soon(call)
        await settled(pipe, 1)
        channel.lose("the host went down")
    (failure,) = failures
    assert (failure.code, failure.layer, failure.retry_safe) == ("outcome_unknown", "transport", retry_safe)
    assert "box" in failure.message
    assert len(pipe.sent) == 1  # never sent again


@pytest.mark.asyncio
async def test_a_call_on_a_closed_channel_was_never_sent_and_may_be_repeated() -> None:
    pipe = FakePipe()
    channel = Channel("box", pipe)
    channel.lose("gone")
    with pytest.raises(Failure) as caught:
        await channel.call("run", {}, retry_safe=False)
    assert caught.value.retry_safe
    assert pipe.sent == []


@pytest.mark.asyncio
async def test_cancelling_a_call_cancels_the_request_and_waits_for_its_end() -> None:
    pipe = FakePipe()
    channel = Channel("box", pipe)
    ended: list[str] = []

    async def call(scope: anyio.CancelScope) -> None:
        with scope:
            await channel.call("run", {})
        ended.append("call")

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(call, scope)
        await settled(pipe, 1)
        scope.cancel()
        await settled(pipe, 2)
        assert pipe.sent[1] == ({"id": 1, "cancel": True}, b"")
        assert ended == []
        channel.feed(frame({"id": 1, "error": {"code": "cancelled", "message": "was cancelled"}}))
    assert ended == ["call"]


@pytest.mark.asyncio
async def test_a_silent_worker_is_given_up_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "ANSWER_GRACE_S", 0.02)
    monkeypatch.setattr(channel_module, "CANCEL_GRACE_S", 0.02)
    pipe = FakePipe()
    channel = Channel("box", pipe)
    with pytest.raises(TimedOut) as caught:
        await channel.call("run", {}, deadline_s=0.02, retry_safe=False)
    assert (caught.value.code, caught.value.layer, caught.value.retry_safe) == ("worker_silent", "transport", False)
    assert [head.get("cancel") for head, _ in pipe.sent] == [None, True]
    assert "said nothing" in str(channel.closed)  # the next call gets a new one


@pytest.mark.asyncio
async def test_a_worker_that_only_one_request_waits_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "ANSWER_GRACE_S", 0.02)
    monkeypatch.setattr(channel_module, "CANCEL_GRACE_S", 0.3)
    pipe = FakePipe()
    channel = Channel("box", pipe)

    async def call() -> None:
        with pytest.raises(TimedOut):
            await channel.call("run", {}, deadline_s=0.02)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await settled(pipe, 2)
        channel.feed(frame({"id": 99, "result": {}}))  # it answers somebody else
    assert channel.closed is None


@pytest.mark.asyncio
async def test_a_silent_worker_is_asked_and_then_lost_long_before_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(channel_module, "SILENCE_BOUND_S", 0.05)
    pipe = FakePipe()
    channel = Channel("box", pipe)
    with pytest.raises(Failure, match="has said nothing") as caught:
        await channel.call("run", {}, deadline_s=3600, retry_safe=False)
    assert (caught.value.code, caught.value.retry_safe) == ("outcome_unknown", False)
    assert [head["call"] for head, _ in pipe.sent] == ["run", "ping"]


@pytest.mark.asyncio
async def test_a_worker_may_be_silent_the_longer_the_more_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(channel_module, "SILENCE_BOUND_S", 0.0)
    monkeypatch.setattr(channel_module, "SLOWEST_BYTES_S", 1_000_000)
    channel = Channel("box", FakePipe())
    begin = time.monotonic()
    with pytest.raises(Failure, match="has said nothing"):
        await channel.call("write", {}, body=bytes(500_000), deadline_s=3600)
    assert time.monotonic() - begin >= 0.5


@pytest.mark.asyncio
async def test_an_answer_after_its_caller_has_gone_is_dropped() -> None:
    channel = Channel("box", FakePipe())
    channel.feed(frame({"id": 99, "result": {}}))
    assert channel.closed is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 16,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        HEADER.pack(4, 0) + b"no{}",
        HEADER.pack(2, 0) + b"[]",
        HEADER.pack(2, 0) + b"{}",
        frame({"id": [1], "result": {}}),
        frame({"id": 1}),
        frame({"id": 1, "result": 3}),
        frame({"id": 1, "error": None}),
    ],
)
def test_what_is_no_frame_closes_the_channel_and_ends_the_worker(garbage: bytes) -> None:
    pipe = FakePipe()
    channel = Channel("box", pipe)
    channel.feed(garbage)
    assert channel.closed is not None
    assert "unreadable" in channel.closed
    assert pipe.closed
    channel.feed(garbage)  # what still arrives is dropped


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("error", "kind", "code", "layer"),
    [
        (
            {"code": "not_found", "layer": "remote_env", "message": "m", "retry_safe": True},
            Failure,
            "not_found",
            "remote_env",
        ),
        ({"code": "deadline", "layer": "remote_env", "message": "m"}, TimedOut, "deadline", "remote_env"),
        ({"layer": "martian"}, Failure, "worker_error", "unknown"),
    ],
)
async def test_an_error_of_the_worker_becomes_a_failure(
    error: dict[str, Any], kind: type[Failure], code: str, layer: str
) -> None:
    pipe = FakePipe()
    channel = Channel("box", pipe)
    async with anyio.create_task_group() as group:

        async def call() -> None:
            with pytest.raises(Failure) as caught:
                await channel.call("read", {})
            failure = caught.value
            assert (type(failure), failure.code, failure.layer) == (kind, code, layer)
            assert failure.message
            assert failure.retry_safe is error.get("retry_safe", False)

        group.start_soon(call)
        await settled(pipe, 1)
        channel.feed(frame({"id": 1, "error": error}))


@pytest.mark.asyncio
async def test_what_an_interrupted_command_left_is_kept() -> None:
    failure = channel_module.failure_from(
        {"code": "deadline", "message": "m", "details": {"drained": {"ended": 2, "survivors": []}}}, "run"
    )
    assert failure.fields == {"drained": {"ended": 2, "survivors": []}}


@pytest.mark.asyncio
async def test_a_name_that_is_no_text_does_not_break_the_connection() -> None:
    pipe = FakePipe()
    channel = Channel("box", pipe)
    async with anyio.create_task_group() as group:

        async def call() -> None:
            assert (await channel.call("read", {})).result == {"path": "/a/\ufffd"}

        group.start_soon(call)
        await settled(pipe, 1)
        channel.feed(frame({"id": 1, "result": {"path": "/a/\udcff"}}))
    assert channel.closed is None
