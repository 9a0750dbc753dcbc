"""Launch records for tests."""

from typing import Any

from vaws_mcp.comparison.records import LaunchRecord, PinnedState


def launch(number: int, label: str, *tpots: float, **more: Any) -> LaunchRecord:
    """A launch whose iterations took so many ms a token; throughput is 1000 divided by that."""
    runs = [
        {
            "run": index,
            "warmup": False,
            "metrics": {"mean_tpot_ms": tpot, "output_throughput": 1000 / tpot, "mean_ttft_ms": 5 * tpot},
            "requests": {"asked": 4, "completed": 4, "failed": 0},
        }
        for index, tpot in enumerate(tpots, 1)
    ]
    fixed: dict[str, Any] = {
        "run_id": "run-1",
        "number": number,
        "round": (number + 1) // 2,
        "state": PinnedState(label=label, ref=label, sha=f"{number:040d}", subject="a change"),
        "case": "default",
        "status": "ok",
        "started_at": f"2026-01-01T00:{number:02d}:00Z",
        "ended_at": f"2026-01-01T00:{number:02d}:30Z",
        "launch": {"command": ["vllm", "serve"], "bench_command": ["vllm", "bench"], "ready_s": 1.0},
        "per_run": runs,
        "contaminated": False,
        "native": {"changed": False},
    }
    return LaunchRecord.model_validate({**fixed, **more})


def interleaved(rounds: int, first_ms: float, other_ms: float) -> list[LaunchRecord]:
    """Launches of two states, forward and backward, with a little spread that is the same for both."""
    records: list[LaunchRecord] = []
    for turn in range(rounds):
        spread = 1 + 0.002 * ((turn * 7) % 5 - 2)
        pair = [("a", first_ms * spread), ("b", other_ms * spread * 1.0005)]
        for label, value in pair if turn % 2 == 0 else reversed(pair):
            records.append(launch(len(records) + 1, label, value, value * 1.001, round=turn + 1))
    return records
