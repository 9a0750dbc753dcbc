"""``remote-dev demo``."""

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

from vaws_mcp.cli.commands import Parser
from vaws_mcp.cli.output import PROGRESS_PREFIX, print_error, print_json
from vaws_mcp.core.envelope import EXIT_CANCELLED, EXIT_FAILED, EXIT_REFUSED
from vaws_mcp.demo.failures import DemoFailed

DEFAULT_OUT = "remote-dev-demo"


def run(_name: str, words: list[str]) -> int:
    """Show the main job and write its report."""
    given = _parser().parse(words)
    if given.on is None and sys.platform != "linux":
        print_error("the simulated container needs Linux", "Show it on a machine you can reach: --on user@host:port.")
        return EXIT_REFUSED
    if given.on is not None and not given.model:
        print_error("--on needs --model", "Give the path of a model on that endpoint.")
        return EXIT_REFUSED
    out = Path(given.out).absolute()
    begin = time.monotonic()
    try:
        with _state_dir(given.on) as state_dir:
            answer = _tell(given, state_dir)
            paths = _keep_reports(answer, out)
    except DemoFailed as failed:
        print_error(str(failed), failed.hint)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    _conclude(answer, paths, round((time.monotonic() - begin) * 1000), as_json=given.json or not sys.stdout.isatty())
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="remote-dev demo",
        description="Show the main job: a coding agent compares two git states of vllm-ascend over MCP. "
        "It runs on a simulated container, so its numbers say nothing about real hardware.",
    )
    parser.add_argument("--out", default=DEFAULT_OUT, help=f"Directory of the report (default: {DEFAULT_OUT}).")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    parser.add_argument("--on", metavar="ENDPOINT", help="Use this endpoint instead of a simulated container.")
    parser.add_argument("--model", help="Model path on that endpoint.")
    parser.add_argument("--state", action="append", metavar="LABEL=REF", help="States to compare on that endpoint.")
    return parser


@contextlib.contextmanager
def _state_dir(endpoint: str | None) -> Generator[Path]:
    """Give a fresh state directory for a simulated container, else the user's own. After a failure it is kept."""
    if endpoint is not None:
        from vaws_mcp.store.statedir import find_state_dir

        yield find_state_dir()
        return
    folder = Path(tempfile.mkdtemp(prefix="vaws-demo-"))
    try:
        yield folder / ".vaws-local"
    except BaseException:
        sys.stderr.write(f"  the records are kept in {folder}\n")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _tell(given: Any, state_dir: Path) -> dict[str, Any]:
    """Run the story.

    Raises: DemoFailed.
    """
    import anyio

    from vaws_mcp.demo.story import STATES, Surroundings, tell

    where = Surroundings(state_dir, given.on, given.model, tuple(given.state or STATES))
    try:
        with _live() as (report, say):
            return anyio.run(partial(tell, where, report, say))
    except BaseExceptionGroup as group:
        inner: BaseException = group
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        raise inner from None


@contextlib.contextmanager
def _live() -> Generator[Any]:
    """Give a progress callback and a function that says a line; a bar on a terminal, machine lines elsewhere."""
    import orjson

    if not sys.stderr.isatty():

        async def write(progress: float, total: float | None, message: str | None) -> None:
            line = orjson.dumps({"phase": "demo", "message": message, "progress": progress, "total": total})
            sys.stderr.write(PROGRESS_PREFIX + line.decode() + "\n")

        def say(text: str) -> None:
            sys.stderr.write(f"{text}\n")

        yield write, say
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=28), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task("", total=None)

        async def show(progress: float, total: float | None, message: str | None) -> None:
            bar.update(line, description=escape(message or ""), completed=progress, total=total)

        def say_above(text: str) -> None:
            console.print(f"• {escape(text)}")

        yield show, say_above


def _keep_reports(answer: dict[str, Any], out: Path) -> dict[str, str]:
    """Copy the reports to where the user wants them."""
    out.mkdir(parents=True, exist_ok=True)
    return {kind: str(shutil.copy(path, out)) for kind, path in answer["report_paths"].items()}


def _conclude(answer: dict[str, Any], paths: dict[str, str], duration_ms: int, *, as_json: bool) -> None:
    """Print the comparison and where the report is."""
    if as_json:
        print_json(
            {
                "schema": "vaws.demo.v1",
                "status": "ok",
                "outcome": "success",
                "summary": answer["summary"],
                "simulated": bool(answer.get("simulated")),
                "comparison": answer["comparison"],
                "report_paths": paths,
                "duration_ms": duration_ms,
            }
        )
        return
    from vaws_mcp.comparison.models import ComparisonRow
    from vaws_mcp.comparison.view import comparison_table
    from vaws_mcp.render.terminal import print_table

    print_table(comparison_table([ComparisonRow(**row) for row in answer["comparison"]]), sys.stdout)
    note = "  (simulated: these numbers say nothing about real hardware)" if answer.get("simulated") else ""
    sys.stdout.write(f"{answer['summary']}{note}\n")
    for kind, path in paths.items():
        sys.stdout.write(f"  {kind}: {path}\n")
    sys.stdout.write(f"done in {duration_ms / 1000:.0f} s\n")
