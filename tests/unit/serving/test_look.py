"""One look at a service names the first condition of readiness that does not hold."""

from __future__ import annotations

from typing import Any, cast

import anyio
import orjson
import pytest

from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.channel import Answer
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.serving.look import Look, engine_processes, look_at
from vaws_mcp.serving.target import Target

OURS, FOREIGN = 10, 99
STATUS = {"family": [{"pid": OURS, "title": "vllm serve"}], "root": {"pid": OURS}}
TARGET = Target("0.0.0.0", 8000, "m")  # noqa: S104 - an address in a record
MODELS = orjson.dumps({"data": [{"id": "m"}]})


class FakeEndpoint:
    """Answers like a worker. ``answers`` gives status, error and body by path; a Failure is raised."""

    def __init__(self, answers: dict[str, Any], owner: int = OURS) -> None:
        self.answers = {"/health": (200, None, b""), "/v1/models": (200, None, MODELS), **answers}
        self.owner = owner
        self.config = EndpointConfig(name="here")
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    async def call(self, method: str, params: dict[str, Any], **_rest: Any) -> Answer:
        if method == "ports":
            return Answer({"ports": {"8000": {"listening": True, "pids": [self.owner], "sids": [self.owner]}}}, b"")
        self.asked.append((params["path"], params["host"], params["headers"]))
        answer = self.answers[params["path"]]
        if isinstance(answer, Failure):
            raise answer
        status, error, body = answer
        return Answer({"status": status, "error": error, "elapsed_ms": 12.0}, body)


def look(answers: dict[str, Any], owner: int = OURS, timeout_s: float = 1.0, target: Target = TARGET) -> Look:
    endpoint = cast("Endpoint", FakeEndpoint(answers, owner))
    return anyio.run(look_at, endpoint, STATUS, target, timeout_s)


def test_all_conditions_hold() -> None:
    found = look({"/v1/completions": (200, None, b"{}")})
    assert found == Look(health=200, models=["m"], token_s=0.012, asked_token=True, missing=None)


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({"/health": (None, "refused", b"")}, "it does not listen"),
        ({"/health": (None, "timeout", b"")}, "/health does not answer in time"),
        ({"/health": (503, None, b"")}, "/health answers 503"),
        ({"/v1/models": (200, None, b'{"data": [{"id": "other"}]}')}, "/v1/models does not list m"),
        ({"/v1/models": (500, None, b"<html>")}, "/v1/models does not list m"),
        ({"/v1/completions": (None, "timeout", b"")}, "no first token within 1 s"),
        ({"/v1/completions": (None, "disconnected", b"")}, "a completion is not answered (disconnected)"),
        ({"/v1/completions": (500, None, b"EngineDead")}, "a completion answers 500: EngineDead"),
        ({"/v1/completions": Failure("deadline", "took too long", layer="remote_env")}, "took too long"),
    ],
)
def test_the_first_condition_that_does_not_hold_is_named(answers: dict[str, Any], missing: str) -> None:
    found = look(answers)
    assert found.missing == missing
    assert found.token_s is None


def test_another_process_on_the_port_is_not_our_service() -> None:
    found = look({}, owner=FOREIGN)
    assert found.missing is not None
    assert str(FOREIGN) in found.missing
    assert not found.asked_token


def test_a_token_is_asked_for_only_when_wanted_and_possible() -> None:
    assert look({}, timeout_s=0).asked_token is False
    protected = look({"/v1/models": (401, None, b"")})
    assert (protected.asked_token, protected.missing) == (False, None)


def test_a_lost_connection_is_no_statement_about_the_service() -> None:
    with pytest.raises(Failure, match="gone"):
        look({"/v1/completions": Failure("connection_lost", "gone", layer="transport")})


def test_a_service_on_all_addresses_is_asked_on_loopback_with_its_key() -> None:
    fake = FakeEndpoint({"/v1/completions": (200, None, b"{}")})
    target = Target("0.0.0.0", 8000, "m", {"Authorization": "Bearer k"})  # noqa: S104 - an address in a record
    anyio.run(look_at, cast("Endpoint", fake), STATUS, target, 1.0)
    assert {host for _path, host, _headers in fake.asked} == {"127.0.0.1"}
    assert all(headers["Authorization"] == "Bearer k" for _path, _host, headers in fake.asked)


def test_engines_and_workers_are_counted_by_their_titles() -> None:
    titles = ["vllm serve m", "VLLM::EngineCore", "VLLM::Worker_TP0", "VLLM::APIServer_0", "python -m tracker"]
    assert engine_processes({"family": [{"pid": number, "title": title} for number, title in enumerate(titles)]}) == 2
    assert engine_processes({}) == 0


def test_a_record_without_a_port_is_no_service() -> None:
    fields: dict[str, Any] = {"execution_id": "e", "task_id": "t", "endpoint": EndpointConfig(name="here")}
    record = ExecutionRecord(**fields, command=["x"], created_at="now")
    assert Target.recorded(record) is None
    record.labels = TARGET.labels()
    assert Target.recorded(record) == TARGET
