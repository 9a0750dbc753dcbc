"""The logs of a service on its endpoint: followed while it starts, read whole when it failed."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.classify import Classifier, Diagnosis
from vaws_mcp.serving.loglines import LineSplitter
from vaws_mcp.serving.timeline import Timeline

STREAMS = ("stdout", "stderr")
PAGE = 1 << 20
END_OF_LOG = 16 << 20
PAGES_A_LOOK = 8


@dataclass(frozen=True)
class Page:
    """A piece of a log, where the next one begins, and whether nothing will follow. Units: bytes."""

    text: str
    following: int
    size: int
    eof: bool

    @property
    def more(self) -> bool:
        """Whether there is more to read now."""
        return bool(self.text) and self.following < self.size


class LogFollower:
    """Reads what a starting service adds to its logs, and keeps the timeline that they tell."""

    def __init__(self, endpoint: Endpoint, record: ExecutionRecord) -> None:
        self.timeline = Timeline()
        self.endpoint = endpoint
        self._record = record
        self._offsets: dict[str, int] = dict.fromkeys(STREAMS, 0)
        self._splitters: dict[str, LineSplitter] = {name: LineSplitter() for name in STREAMS}

    async def look(self, seen: float | None) -> None:
        """Read on in both logs; ``seen`` is the time since the start, when somebody has watched from there on."""
        for name in STREAMS:
            await self._read(name, seen)

    async def _read(self, name: str, seen: float | None) -> None:
        for _page in range(PAGES_A_LOOK):
            page = await page_of(self.endpoint, self._record, name, self._offsets[name])
            self._offsets[name] = page.following
            self.timeline.new_stream()
            self.timeline.text(self._splitters[name].feed(page.text), seen)
            if not page.more:
                return


async def page_of(
    endpoint: Endpoint, record: ExecutionRecord, stream: str, offset: int | None, max_bytes: int = PAGE
) -> Page:
    """Return a piece of a log from an offset on; None is the end of the log.

    Raises: Failure of the endpoint.
    """
    params = {"execution_id": record.execution_id, "stream": stream, "offset": offset, "max_bytes": max_bytes}
    answer = await endpoint.call("execution.tail", params, deadline_s=60.0)
    page = answer.result
    text = answer.body.decode("utf-8", "replace")
    return Page(text, page["next_offset"], page["size"], page["eof"])


async def _whole(endpoint: Endpoint, record: ExecutionRecord, stream: str) -> AsyncGenerator[str]:
    """Yield a log piece by piece; of one longer than 32 MiB only the first and the last 16 MiB."""
    offset, jumped = 0, False
    while True:
        page = await page_of(endpoint, record, stream, offset)
        yield page.text
        offset = page.following
        if not page.more:
            return
        if not jumped and offset >= END_OF_LOG and page.size - offset > END_OF_LOG:
            offset, jumped = page.size - END_OF_LOG, True
            yield "\n"


async def classify_logs(endpoint: Endpoint, record: ExecutionRecord) -> Classifier:
    """Read the logs of an execution. vLLM writes to both; stdout is read first.

    Raises: Failure of the endpoint.
    """
    classifier = Classifier()
    for name in STREAMS:
        async for text in _whole(endpoint, record, name):
            classifier.feed(text)
        classifier.new_stream()
    return classifier


async def diagnose(endpoint: Endpoint, record: ExecutionRecord) -> Diagnosis:
    """Return why an execution failed, as its logs tell.

    Raises: Failure of the endpoint.
    """
    return (await classify_logs(endpoint, record)).diagnosis()
