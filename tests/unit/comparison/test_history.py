"""The history of a task: every measured state, in reasonable time also for ten thousand runs."""

import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio.to_thread
import pytest
import pytest_asyncio

from vaws_mcp.bench.summary import MeasuredState, save_summary
from vaws_mcp.comparison.history_models import BenchHistoryRequest, BenchHistoryResult
from vaws_mcp.comparison.history_operations import bench_history
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.taskstore.models import TaskCreateRequest
from vaws_mcp.taskstore.operations import task_create

MANY = 10_000


@pytest_asyncio.fixture
async def ctx(tmp_path: Path) -> AsyncGenerator[Context]:
    async with Resources() as resources:
        yield Context(state_dir=tmp_path / ".vaws-local", resources=resources)


async def new_task(ctx: Context) -> tuple[str, Path]:
    made = await task_create(TaskCreateRequest(slug="history"), ctx)
    context_file: str = getattr(made, "context_file")  # noqa: B009 - the base class of results does not have it
    return context_file, Path(context_file).parent / "benchmark" / "runs"


def add_run(runs: Path, number: int, *states: MeasuredState, simulated: bool = False) -> None:
    folder = runs / f"run-20260101T000000-{number:08x}"
    folder.mkdir(parents=True)
    record = {"operation": "bench_compare", "state": "finished", "status": "failed", "created_at": "2026-01-01"}
    (folder / "run.json").write_text(json.dumps(record), "utf-8")
    if states:
        save_summary(folder, "/models/m", states, ended_at=f"2026-01-02T00:00:{number % 60:02d}Z", simulated=simulated)


def state(label: str, sha: str, tpot: float | None, case: str = "default") -> MeasuredState:
    return MeasuredState(label=label, case=case, sha=sha * 40, subject="a change", metrics={"mean_tpot_ms": tpot})


async def history(ctx: Context, context_file: str, **more: object) -> BenchHistoryResult:
    result = await bench_history(BenchHistoryRequest.model_validate({"context_file": context_file, **more}), ctx)
    assert isinstance(result, BenchHistoryResult)
    return result


@pytest.mark.asyncio
async def test_every_measured_state_is_a_row_and_a_run_without_figures_is_shown_too(ctx: Context) -> None:
    context_file, runs = await new_task(ctx)
    add_run(runs, 1, state("a", "1", 20.0), state("b", "2", 22.0))
    add_run(runs, 2)
    add_run(runs, 3, state("a", "1", 21.0), state("a", "1", 30.0, "requests_8"))

    found = await history(ctx, context_file)
    assert [(row.run_id[-1], row.state, row.case, row.value, row.status) for row in found.history] == [
        ("3", "a", "default", 21.0, "ok"),
        ("3", "a", "requests_8", 30.0, "ok"),
        ("2", None, None, None, "failed"),
        ("1", "a", "default", 20.0, "ok"),
        ("1", "b", "default", 22.0, "ok"),
    ]
    page = await anyio.to_thread.run_sync(Path(found.report_paths["html"]).read_text, "utf-8")
    assert page.count("<svg") == 2
    assert "1" * 9 in page
    one_case = await history(ctx, context_file, case="requests_8", plot=False)
    assert [row.value for row in one_case.history] == [30.0]
    assert one_case.report_paths == {}
    assert [row.value for row in (await history(ctx, context_file, limit=1)).history] == [21.0, 30.0]


@pytest.mark.asyncio
async def test_a_history_with_figures_of_the_simulated_container_says_so(ctx: Context) -> None:
    context_file, runs = await new_task(ctx)
    add_run(runs, 1, state("a", "1", 20.0))
    await history(ctx, context_file, plot=False)
    assert not ctx.simulated
    add_run(runs, 2, state("a", "1", 20.0), simulated=True)
    found = await history(ctx, context_file)
    assert ctx.simulated
    assert [row.simulated for row in found.history] == [True, False]
    page = await anyio.to_thread.run_sync(Path(found.report_paths["markdown"]).read_text, "utf-8")
    assert "Simulated" in page


@pytest.mark.asyncio
async def test_a_torn_summary_is_left_out(ctx: Context) -> None:
    context_file, runs = await new_task(ctx)
    add_run(runs, 1, state("a", "1", 20.0))
    (runs / "run-20260101T000000-00000001" / "summary.json").write_text('{"sch', "utf-8")
    found = await history(ctx, context_file)
    assert [(row.status, row.value) for row in found.history] == [("failed", None)]


@pytest.mark.asyncio
async def test_ten_thousand_runs_are_listed_within_a_second(ctx: Context) -> None:
    context_file, runs = await new_task(ctx)
    text = json.dumps(
        {
            "schema": "vaws.bench_summary.v1",
            "model": "/models/m",
            "ended_at": "2026-01-02T00:00:00Z",
            "states": [state("a", "1", 20.0).model_dump(), state("b", "2", 22.0).model_dump()],
        }
    )
    for number in range(MANY):
        folder = runs / f"run-20260101T000000-{number:08x}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}", "utf-8")
        (folder / "summary.json").write_text(text, "utf-8")
    took: list[float] = []
    for _ in range(3):
        begin = time.monotonic()
        found = await history(ctx, context_file, limit=MANY, plot=False)
        took.append(time.monotonic() - begin)
        assert len(found.history) == 2 * MANY
    assert min(took) <= 1, took


@pytest.mark.asyncio
@pytest.mark.parametrize("torn", ["{}", '{"model": "m", "ended_at": "2026", "states": [1]}', '{"states": []}'])
async def test_a_summary_that_is_not_ours_is_named_and_hides_no_other_run(ctx: Context, torn: str) -> None:
    context_file, runs = await new_task(ctx)
    add_run(runs, 1, state("a", "1", 20.0))
    add_run(runs, 2, state("a", "1", 21.0))
    (runs / f"run-20260101T000000-{2:08x}" / "summary.json").write_text(torn, "utf-8")
    found = await history(ctx, context_file)
    assert [(row.status, row.value) for row in found.history] == [("unreadable", None), ("ok", 20.0)]
