"""A conversation over two byte queues: frames whose bodies are read in the chunks in which they arrive."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Protocol, Tuple, Union

from ... import wire

QUEUE_BYTES = 4 << 20
BEAT_S = 5.0
SILENCE_S = 60.0


class LinkLost(Exception):  # noqa: N818 - a state of the connection
    """The other end is gone, or has been silent for too long."""


class PeerRefused(Exception):  # noqa: N818 - an answer of the other end
    """The other end ended the conversation with an error object."""

    def __init__(self, error: Dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.error = error


class Inbox(Protocol):
    """Where received bytes come from."""

    def take(self, timeout_s: Optional[float]) -> Union[bytes, memoryview]:
        """Return some bytes, valid until the next call; waits for them. Raises: LinkLost."""
        ...

    def close(self, why: str) -> None:
        """Take nothing more."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether ``take`` would return at once."""
        ...

    @property
    def closed(self) -> Optional[str]:
        """Why nothing more will come, or None."""
        ...


class ByteQueue:
    """Chunks between two threads. The bound is kept by whoever fills it, through ``wait_room`` or ``on_room``."""

    def __init__(self, on_room: Optional[Callable[[], None]] = None) -> None:
        self._chunks: Deque[bytes] = deque()
        self._size = 0
        self._news = threading.Condition()
        self._closed: Optional[str] = None
        self._on_room = on_room

    def put(self, chunk: bytes) -> int:
        """Add a chunk and return how many bytes are waiting now."""
        with self._news:
            self._chunks.append(chunk)
            self._size += len(chunk)
            if len(self._chunks) == 1:
                self._news.notify_all()
            return self._size

    def wait_room(self, silence_s: float = SILENCE_S) -> None:
        """Return when the queue is below its bound. Raises: LinkLost."""
        with self._news:
            while self._size >= QUEUE_BYTES and self._closed is None:
                before = self._size
                if not self._news.wait(silence_s) and self._size >= before:
                    raise LinkLost(f"nothing moved for {silence_s:.0f} s")
            if self._closed is not None:
                raise LinkLost(self._closed)

    def take(self, timeout_s: Optional[float]) -> bytes:
        """Return the next chunk; waits for it. Raises: LinkLost at the end or after too long a silence."""
        with self._news:
            if not self._chunks and self._closed is None and not self._news.wait_for(self._some, timeout_s):
                raise LinkLost(f"nothing came for {timeout_s:.0f} s")
            if not self._chunks:
                raise LinkLost(self._closed or "closed")
            chunk = self._chunks.popleft()
            before, self._size = self._size, self._size - len(chunk)
            room = before >= QUEUE_BYTES // 2 > self._size
            if room:
                self._news.notify_all()
        if room and self._on_room is not None:
            self._on_room()
        return chunk

    def take_all(self) -> List[bytes]:
        """Return what is waiting, without waiting."""
        with self._news:
            chunks = list(self._chunks)
            self._chunks.clear()
        return chunks

    def release(self, count: int) -> None:
        """Note that bytes from ``take_all`` have left."""
        with self._news:
            self._size -= count
            self._news.notify_all()

    def _some(self) -> bool:
        return bool(self._chunks) or self._closed is not None

    def close(self, why: str) -> None:
        """Let every wait end; what has arrived can still be taken."""
        with self._news:
            self._closed = self._closed or why
            self._news.notify_all()

    @property
    def waiting(self) -> bool:
        """Whether something has arrived."""
        return bool(self._chunks)

    @property
    def closed(self) -> Optional[str]:
        """Why nothing more will come, or None."""
        return self._closed


class Link:
    """One end of the conversation. One thread talks; another one may send heartbeats."""

    def __init__(self, inbox: Inbox, send_chunks: Callable[[List[bytes]], None]) -> None:
        self.inbox = inbox
        self._send_chunks = send_chunks
        self._sending = threading.Lock()
        self._last_sent = 0.0
        self._chunk = memoryview(b"")

    def send(self, head: wire.Head, body: Optional[List[bytes]] = None) -> None:
        """Send a frame; waits while the other end is slow. Raises: LinkLost."""
        raw = wire.dump_head(head)
        parts = body or []
        size = sum(len(part) for part in parts)
        prefix = wire.HEADER.pack(len(raw), size) + raw
        with self._sending:
            self._send_chunks([prefix, *parts])
            self._last_sent = time.monotonic()

    def receive(self, timeout_s: Optional[float] = SILENCE_S) -> Tuple[wire.Head, int]:
        """Return the next head and the length of its body, which must be read next.

        Raises: LinkLost. PeerRefused. FrameError for bytes that are no frames.
        """
        while True:
            head_bytes, body_bytes = wire.lengths(self.exactly(wire.HEADER_BYTES, timeout_s))
            head = wire.load_head(self.exactly(head_bytes))
            if "error" in head:
                raise PeerRefused(head["error"])
            if "busy" not in head:
                return head, body_bytes

    def expect(self, key: str) -> Tuple[wire.Head, int]:
        """Return the next frame, which must have this key. Raises: as ``receive``."""
        head, size = self.receive()
        if key not in head:
            raise wire.FrameError(f"expected a frame with {key}")
        return head, size

    def check(self) -> None:
        """Raise when the conversation has ended or the other end refused; called between steps that take time."""
        while self._chunk or self.inbox.waiting:
            head_bytes, _ = wire.lengths(self.exactly(wire.HEADER_BYTES))
            head = wire.load_head(self.exactly(head_bytes))
            if "error" in head:
                raise PeerRefused(head["error"])
            if "busy" not in head:
                raise wire.FrameError("a frame out of turn")
        if self.inbox.closed is not None:
            raise LinkLost(self.inbox.closed)

    def alive(self) -> None:
        """Raise when the conversation has ended. Raises: LinkLost."""
        if self.inbox.closed is not None:
            raise LinkLost(self.inbox.closed)

    def chunks(self, count: int) -> Iterator[memoryview]:
        """Yield ``count`` bytes as they arrive; each piece is valid until the next one is asked for."""
        while count > 0:
            if not self._chunk:
                self._chunk = memoryview(self.inbox.take(SILENCE_S))
            piece = self._chunk[:count]
            self._chunk = self._chunk[len(piece) :]
            count -= len(piece)
            yield piece

    def exactly(self, count: int, timeout_s: Optional[float] = SILENCE_S) -> bytes:
        """Return ``count`` bytes; meant for short ones."""
        if count and not self._chunk:
            self._chunk = memoryview(self.inbox.take(timeout_s))
        return b"".join([bytes(piece) for piece in self.chunks(count)])

    def beat(self) -> None:
        """Send a heartbeat when nothing else was sent for a while."""
        if time.monotonic() - self._last_sent >= BEAT_S and not self._sending.locked():
            self.send({"busy": True})


class Heart:
    """Sends heartbeats while its block works, so that a long hash or fsync is not taken for silence."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="vaws-heart", daemon=True)

    def _work(self) -> None:
        try:
            while not self._stop.wait(BEAT_S):
                self._link.beat()
        except LinkLost:
            pass

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join()
