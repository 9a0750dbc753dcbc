"""The service of a benchmark: which devices, which one is ours, and what happens when it cannot be stopped."""

from typing import Any

import pytest

from vaws_mcp.bench import service
from vaws_mcp.bench.models import BenchRunRequest
from vaws_mcp.bench.service import is_ours, of_service, stopped_or_why, wanted_devices
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.failures import CleanupFailed
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.serving.preflight import Surroundings

NPUS, NONE = Surroundings(True, ()), Surroundings(False, ())
NOTHING: Any = None


def settings(**fields: object) -> BenchSettings:
    return BenchSettings.of(BenchRunRequest.model_validate({"model": "/m", **fields}))


def record(**labels: str) -> ExecutionRecord:
    return ExecutionRecord(
        execution_id="execution-1",
        task_id="t",
        kind="serve",
        endpoint=EndpointConfig(name="e", host="h"),
        command=["vllm"],
        labels=labels,
        created_at="2026-01-01T00:00:00Z",
    )


@pytest.mark.parametrize(
    ("fields", "found", "wanted"),
    [
        ({}, NPUS, DeviceRequest(count=1)),
        ({"tp": 2, "dp": 2}, NPUS, DeviceRequest(count=4)),
        ({}, NONE, None),
        ({"devices": "none"}, NPUS, None),
        ({"devices": "3"}, NPUS, DeviceRequest(ids=("3",))),
        ({"devices": "3"}, NONE, DeviceRequest(ids=("3",))),
    ],
)
def test_devices_are_the_named_ones_or_as_many_as_the_parallel_sizes(
    fields: dict[str, object], found: Surroundings, wanted: DeviceRequest | None
) -> None:
    assert wanted_devices(settings(**fields), found) == wanted


def test_only_a_service_that_a_benchmark_started_is_ours() -> None:
    assert is_ours(record(started_by="bench"))
    assert not is_ours(record(kind="vllm-serve"))


def test_a_live_service_brings_its_address_and_name() -> None:
    found = of_service(settings(port=1), record(port="8123", host="0.0.0.0", served_model_name="dsv4"))  # noqa: S104
    assert (found.serve.port, found.serve.host, found.serve.served_model_name) == (8123, "0.0.0.0", "dsv4")  # noqa: S104


@pytest.mark.asyncio
@pytest.mark.parametrize(("failures", "why"), [(0, None), (1, None), (2, "pid 7 survives")])
async def test_a_stop_that_fails_is_tried_once_more_and_then_said(
    monkeypatch: pytest.MonkeyPatch, failures: int, why: str | None
) -> None:
    calls: list[object] = []

    async def stop(*words: object) -> None:
        calls.append(words)
        if len(calls) <= failures:
            raise CleanupFailed("stop_incomplete", "pid 7 survives", layer="remote_workload")

    monkeypatch.setattr(service, "stop_service", stop)
    assert await stopped_or_why(NOTHING, NOTHING, NOTHING, record()) == why
    assert len(calls) == min(failures + 1, 2)
