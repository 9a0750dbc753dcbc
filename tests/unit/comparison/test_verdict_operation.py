"""bench_verdict: a policy on the launches of a run, also of one that has not finished."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from launch_records import interleaved, launch

from vaws_mcp.comparison.records import PLAN_FILE, ComparisonRecord, LaunchRecord, PinnedState, save_launch_record
from vaws_mcp.comparison.verdict_operations import BenchVerdictRequest, BenchVerdictResult, bench_verdict
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.envelope import EXIT_VERDICT_FAILED, Stopwatch, exit_code, succeeded
from vaws_mcp.core.failures import Failure
from vaws_mcp.runs.records import RunDir, RunRecord
from vaws_mcp.store.records import save

RUN_ID = "run-20260101T000000-00000001"


@pytest_asyncio.fixture
async def ctx(tmp_path: Path) -> AsyncGenerator[Context]:
    async with Resources() as resources:
        yield Context(state_dir=tmp_path / ".vaws-local", resources=resources)


def add_run(
    ctx: Context, launches: Sequence[LaunchRecord], *, operation: str = "bench_compare", **planned: Any
) -> None:
    folder = ctx.state_dir / "tasks" / "t-20260101-000000" / "benchmark" / "runs" / RUN_ID
    folder.mkdir(parents=True)
    record = RunRecord(
        run_id=RUN_ID,
        operation=operation,
        task_id="t-20260101-000000",
        request={},
        state="finished",
        created_at="2026-01-01T00:00:00Z",
    )
    RunDir(folder).save(record)
    if operation != "bench_compare":
        return
    fixed: dict[str, Any] = {"run_id": RUN_ID, "model": "/m", "endpoint": "e", "states": [], "cases": ["default"]}
    plan = ComparisonRecord.model_validate({**fixed, "order": "interleaved", "rounds": 8, **planned})
    save(folder / PLAN_FILE, plan)
    for launched in launches:
        save_launch_record(folder, launched)


async def verdict(ctx: Context, policy: str = "latency-5pct") -> BenchVerdictResult:
    result = await bench_verdict(BenchVerdictRequest(run_id=RUN_ID, policy=policy), ctx)
    assert isinstance(result, BenchVerdictResult)
    return result


@pytest.mark.asyncio
@pytest.mark.parametrize(("other_ms", "said"), [(20.0, "passed"), (23.0, "failed")])
async def test_the_launches_of_a_run_are_judged(ctx: Context, other_ms: float, said: str) -> None:
    add_run(ctx, interleaved(8, 20, other_ms))
    found = await verdict(ctx)
    assert found.verdict == said
    assert found.launches == {"a": 8, "b": 8}
    code = exit_code(succeeded("bench_verdict", found, Stopwatch(), ctx))
    assert code == (EXIT_VERDICT_FAILED if said == "failed" else 0)


@pytest.mark.asyncio
async def test_too_few_launches_are_inconclusive_and_failed_ones_do_not_count(ctx: Context) -> None:
    launches = interleaved(4, 20, 30)
    launches[0] = launches[0].model_copy(update={"status": "failed"})
    add_run(ctx, launches)
    found = await verdict(ctx)
    assert found.launches == {"a": 3, "b": 4}
    assert found.verdict == "inconclusive"


@pytest.mark.asyncio
@pytest.mark.parametrize("planned", [{"labels": "abc"}, {"labels": "ab", "cases": ["default", "requests_8"]}])
async def test_a_state_or_case_that_was_not_reached_keeps_the_others_from_passing(
    ctx: Context, planned: dict[str, Any]
) -> None:
    states = [PinnedState(label=label, ref=label, sha="0" * 40, subject="") for label in planned.pop("labels")]
    add_run(ctx, interleaved(8, 20, 20.0), states=states, **planned)
    found = await verdict(ctx)
    assert found.verdict == "inconclusive"
    missing = [row for row in found.judgements if row.name == "launches"]
    assert missing
    assert {row.verdict for row in missing} == {"inconclusive"}


@pytest.mark.asyncio
async def test_launches_of_two_runs_are_called_a_mixed_set(ctx: Context) -> None:
    add_run(ctx, interleaved(8, 20, 20.0), resumed_from="run-20260101T000000-00000000")
    await verdict(ctx)
    assert any(warning.startswith("mixed set") for warning in ctx.warnings)


@pytest.mark.asyncio
async def test_one_state_cannot_be_judged(ctx: Context) -> None:
    add_run(ctx, [launch(1, "a", 20)])
    with pytest.raises(Failure) as caught:
        await verdict(ctx)
    assert caught.value.code == "nothing_to_judge"
    assert "resume" in (caught.value.hint or "")


@pytest.mark.asyncio
async def test_a_run_that_compares_nothing_and_a_policy_that_is_not_there_are_refused(ctx: Context) -> None:
    add_run(ctx, [], operation="bench_run")
    with pytest.raises(Failure) as caught:
        await verdict(ctx)
    assert caught.value.code == "not_a_comparison"
    with pytest.raises(Failure) as caught:
        await verdict(ctx, "no-such-policy")
    assert caught.value.code == "preset_unknown"
