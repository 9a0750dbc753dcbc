"""What a person or a script sees: one JSON object or a readable answer on stdout, progress on stderr."""

import contextlib
import os
import sys
from collections.abc import Generator
from typing import Any

import orjson

from vaws_mcp.core.progress import ProgressEvent, ProgressSink
from vaws_mcp.core.sanitize import one_line, plain_text

PROGRESS_PREFIX = "__VAWS_PROGRESS__="


def open_streams() -> None:
    """Replace standard streams that the caller has closed by ones that lead nowhere."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as the process
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as the process


def give_up_stdout() -> None:
    """Let what is still in the buffer go nowhere: whoever read standard output has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(value: Any) -> None:
    """Write one JSON object and a newline to stdout; indented for a terminal."""
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0)
    sys.stdout.buffer.write(orjson.dumps(value, option=option))
    sys.stdout.buffer.flush()


def print_error(message: str, hint: str | None = None) -> None:
    """Write a message and its hint to stderr."""
    sys.stderr.write(f"remote-dev: {plain_text(message)}\n")
    if hint:
        sys.stderr.write(f"  {plain_text(hint)}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def progress_to_stderr() -> Generator[ProgressSink]:
    """Give a sink that writes machine lines, or a progress bar when stderr is a terminal."""
    if not sys.stderr.isatty():
        yield _write_line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("", total=None)

        async def show(event: ProgressEvent) -> None:
            text = one_line(f"{event.phase}: {event.message}").replace("[", r"\[")
            bar.update(line, description=text, completed=event.progress or 0, total=event.total)

        yield show


async def _write_line(event: ProgressEvent) -> None:
    sys.stderr.write(PROGRESS_PREFIX + orjson.dumps(event.as_dict()).decode() + "\n")
    sys.stderr.flush()
