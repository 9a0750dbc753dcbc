"""The laptop's end of the worker channel: many requests at once over one byte stream."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import orjson

from vaws_mcp.core.failures import Failure, Layer, TimedOut
from vaws_mcp.core.sanitize import whole_text
from vaws_mcp.endpoint.failures import connection_lost
from vaws_mcp.worker.wire import HEADER_BYTES, FrameError, dump_head, encode, lengths, load_head

ANSWER_GRACE_S = 15.0
CANCEL_GRACE_S = 15.0
# A worker that says nothing is asked whether it lives. Its answer may take the longer, the more was sent.
LOOK_EVERY_S = 5.0
SILENCE_BOUND_S = 10.0
SLOWEST_BYTES_S = 64 << 10

EventSink = Callable[[dict[str, Any], bytes], None]


class Pipe(Protocol):
    """What the channel needs from its transport. Received bytes are given to ``Channel.feed``."""

    def write_parts(self, parts: list[bytes]) -> None:
        """Queue bytes for the worker."""
        ...

    async def drained(self) -> None:
        """Return when the transport can take more."""
        ...

    def close(self) -> None:
        """End the worker, which then ends what it started."""
        ...


@dataclass(frozen=True)
class Answer:
    """The worker's answer to one request."""

    result: dict[str, Any]
    body: bytes


class _Pending:
    """A request that waits for its answer."""

    def __init__(self, method: str, on_event: EventSink | None, *, retry_safe: bool) -> None:
        self.method = method
        self.on_event = on_event
        self.retry_safe = retry_safe
        self.done = anyio.Event()
        self.answer: Answer | None = None
        self.failure: Failure | None = None


class Channel:
    """Multiplexes requests. A request that was sent is never sent again."""

    def __init__(self, where: str, pipe: Pipe) -> None:
        self.where = where
        self.closed: str | None = None
        self._pipe = pipe
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._buffer = bytearray()
        self._heard_at = self._asked_at = time.monotonic()
        self._sent_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take received bytes. A stream that is not frames closes the channel and ends the worker."""
        if self.closed is not None:
            return
        self._heard_at = time.monotonic()
        self._sent_bytes = 0
        self._buffer += data
        try:
            self._take_frames()
        except FrameError as error:
            self.lose(f"unreadable data from the worker ({error})")
            self._pipe.close()

    def _take_frames(self) -> None:
        buffer, start = self._buffer, 0
        while len(buffer) - start >= HEADER_BYTES:
            head_bytes, body_bytes = lengths(bytes(buffer[start : start + HEADER_BYTES]))
            end = start + HEADER_BYTES + head_bytes + body_bytes
            if len(buffer) < end:
                break
            split = start + HEADER_BYTES + head_bytes
            self._dispatch(_head(buffer[start + HEADER_BYTES : split]), bytes(buffer[split:end]))
            start = end
        if start:
            del buffer[:start]

    def _dispatch(self, head: dict[str, Any], body: bytes) -> None:
        pending = self._pending.get(head["id"])
        if pending is None:
            return  # the answer to a request whose caller has gone
        if "event" in head:
            if pending.on_event:
                pending.on_event(head, body)
            return
        if "result" in head:
            pending.answer = Answer(head["result"], body)
        else:
            pending.failure = failure_from(head["error"], pending.method)
        pending.done.set()

    def lose(self, why: str) -> None:
        """Note that the connection has ended: every request under way has an unknown outcome."""
        if self.closed is not None:
            return
        self.closed = why
        for pending in self._pending.values():
            pending.failure = connection_lost(self.where, pending.method, why, retry_safe=pending.retry_safe)
            pending.done.set()

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        body: bytes = b"",
        deadline_s: float = 60.0,
        retry_safe: bool = True,
        on_event: EventSink | None = None,
    ) -> Answer:
        """Ask the worker for one thing and return its answer.

        Cancelling the call cancels the request on the endpoint and waits, for a bounded time, until its processes are
        gone.

        Raises: Failure as the worker reported it; ``outcome_unknown`` when the connection was lost; TimedOut when the
        worker did not answer within the deadline and its grace.
        """
        if self.closed is not None:
            raise connection_lost(self.where, method, self.closed, retry_safe=True)
        number = next(self._ids)
        pending = _Pending(method, on_event, retry_safe=retry_safe)
        self._pending[number] = pending
        try:
            head = {"id": number, "call": method, "params": params, "deadline_s": deadline_s}
            self._send(encode(head, body, _dump))
            await self._pipe.drained()
            await self._wait(pending, deadline_s + ANSWER_GRACE_S)
            if not pending.done.is_set():
                raise await self._give_up(number, pending, deadline_s)
        except anyio.get_cancelled_exc_class():
            await self._cancel(number, pending)
            raise
        finally:
            self._pending.pop(number, None)
        if pending.failure is not None:
            raise pending.failure
        assert pending.answer is not None  # noqa: S101 - set together with ``done``
        return pending.answer

    def _send(self, parts: list[bytes]) -> None:
        self._sent_bytes += sum(map(len, parts))
        self._pipe.write_parts(parts)

    async def _wait(self, pending: _Pending, bound_s: float) -> None:
        """Wait for an answer as long as the worker lives, at most ``bound_s``."""
        limit = time.monotonic() + bound_s
        while not pending.done.is_set() and (left := limit - time.monotonic()) > 0:
            with anyio.move_on_after(min(left, LOOK_EVERY_S)):
                await pending.done.wait()
                return
            self._look()

    def _look(self) -> None:
        """Ask a silent worker whether it lives. One that does not answer is frozen: it is left to itself."""
        now = time.monotonic()
        if self._asked_at > self._heard_at:
            if now - self._asked_at >= SILENCE_BOUND_S + self._sent_bytes / SLOWEST_BYTES_S:
                self._leave(now - self._asked_at)
        elif now - self._heard_at >= LOOK_EVERY_S and self.closed is None:
            self._asked_at = now
            ping = {"id": next(self._ids), "call": "ping", "params": {}, "deadline_s": SILENCE_BOUND_S}
            self._send(encode(ping, b"", orjson.dumps))

    def _leave(self, silent_s: float) -> None:
        """Lose a worker that is frozen. Should it go on one day, it finds its input closed, drains and ends."""
        self.lose(f"the worker has said nothing for {silent_s:.0f} s")
        self._pipe.close()

    async def _cancel(self, number: int, pending: _Pending) -> None:
        """Cancel a request on the endpoint and give its processes time to go."""
        if self.closed is not None or pending.done.is_set():
            return
        begin = time.monotonic()
        with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_GRACE_S):
            self._send(encode({"id": number, "cancel": True}, b"", orjson.dumps))
            await pending.done.wait()
        if not pending.done.is_set() and self._heard_at < begin:
            self._leave(time.monotonic() - begin)

    async def _give_up(self, number: int, pending: _Pending, deadline_s: float) -> Failure:
        await self._cancel(number, pending)
        return TimedOut(
            "worker_silent",
            f"the worker on {self.where} did not answer {pending.method} within {deadline_s:.0f} s",
            layer="transport",
            hint="The next call looks whether the endpoint is reachable at all.",
            retry_safe=pending.retry_safe,
        )


def _dump(head: dict[str, Any]) -> bytes:
    """Encode the head of a request; bytes that are no UTF-8 come from a command line as lone surrogates."""
    try:
        return orjson.dumps(head)
    except TypeError:
        return dump_head(head)


def _head(raw: bytearray) -> dict[str, Any]:
    """Decode the head of an answer or event.

    Raises: FrameError for anything else.
    """
    try:
        head = orjson.loads(raw)
    except orjson.JSONDecodeError:
        head = whole_text(load_head(bytes(raw)))  # names that are no UTF-8 arrive as lone surrogates
    if not isinstance(head, dict) or not isinstance(head.get("id"), int):
        raise FrameError("head is not an object with an id")
    if not any(isinstance(head.get(key), kind) for key, kind in (("result", dict), ("error", dict), ("event", str))):
        raise FrameError("head is neither answer nor event")
    return head


_LAYERS: dict[str, Layer] = {
    "caller": "caller",
    "local": "local",
    "transport": "transport",
    "remote_env": "remote_env",
    "remote_workload": "remote_workload",
    "device": "device",
}


def failure_from(error: dict[str, Any], method: str) -> Failure:
    """Build the failure that a worker's error frame describes."""
    layer = _LAYERS.get(str(error.get("layer")), "unknown")
    kind = TimedOut if error.get("code") in ("timeout", "deadline") else Failure
    return kind(
        str(error.get("code") or "worker_error"),
        str(error.get("message") or f"{method} failed on the endpoint without a message"),
        layer=layer,
        hint=error.get("hint"),
        retry_safe=bool(error.get("retry_safe")),
        phase=error.get("phase"),
        fields=dict(error.get("details") or {}),
    )
