"""An endpoint that keeps executions in memory and does as it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.lowlevel

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.progress import ProgressEvent
from vaws_mcp.endpoint.channel import Answer
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.taskstore.records import Sources
from vaws_mcp.taskstore.tasks import Task, create_task

BOOT = "boot-1"
Json = dict[str, Any]


def status_of(execution_id: str, state: str = "running", **more: Any) -> Json:
    """A status as a worker answers it."""
    plain: Json = {
        "execution_id": execution_id,
        "state": state,
        "boot_id": BOOT,
        "supervised": state not in ("exited", "lost"),
        "resources_released": state == "exited",
        "survivors": [],
        "family": [],
        "exit": {"reason": "succeeded", "code": 0, "signal": None} if state == "exited" else None,
        "note": None,
        "stop_reason": None,
        "submitted_at": 1.0,
        "started_at": None,
        "ended_at": None,
    }
    return {**plain, **more}


def failure(code: str, layer: Any = "caller") -> Failure:
    return Failure(code, f"it says {code}", layer=layer, retry_safe=True)


class FakeEndpoint:
    """Stands for a connected endpoint. ``before`` is called with each method, and may raise or change something."""

    def __init__(self, name: str = "fake") -> None:
        self.config = EndpointConfig(name=name, host="h")
        self.hello: Json = {"boot_id": BOOT}
        self.usable = True
        self.simulated = False
        self.statuses: dict[str, Json] = {}
        self.specs: list[Json] = []
        self.calls: list[str] = []
        self.first_state = "running"
        self.before: Callable[[str, Json], object] = lambda _method, _params: None

    def env_spec(self, *, refresh: bool = False) -> Json:
        return {"env_files": [], "venv": None, "refresh": refresh}

    async def call(self, method: str, params: Json | None = None, **_rest: Any) -> Answer:
        params = params or {}
        self.calls.append(method)
        self.before(method, params)
        await anyio.lowlevel.checkpoint()
        name = method.replace(".", "_")
        return Answer(getattr(self, f"_{name}")(params), b"")

    def _one(self, params: Json) -> Json:
        try:
            return dict(self.statuses[params["execution_id"]])
        except KeyError:
            raise failure("not_found") from None

    def _execution_submit(self, params: Json) -> Json:
        spec = params["spec"]
        self.specs.append(spec)
        self.statuses.setdefault(spec["execution_id"], status_of(spec["execution_id"], self.first_state))
        return {"status": self._one(spec)}

    def _execution_status(self, params: Json) -> Json:
        return self._one(params)

    def _execution_wait(self, params: Json) -> Json:
        found = self._one(params)
        reached = found["state"] == "running" if params["until"] == "running" else found["state"] == "exited"
        return {**found, "reached": reached}

    def _execution_touch(self, params: Json) -> Json:
        return self._one(params)

    def _execution_stop(self, params: Json) -> Json:
        found = self._one(params)
        if found["state"] != "exited":
            found = status_of(found["execution_id"], "exited", stop_reason=params["reason"])
            self.statuses[found["execution_id"]] = found
        return found

    def _execution_list(self, _params: Json) -> Json:
        return {"executions": [dict(found) for found in self.statuses.values()], "unreadable": []}

    def _context(self, _params: Json) -> Json:
        return {"packages": {}}


class World:
    """A task, a context and a fake endpoint that the context is connected to."""

    def __init__(self, state_dir: Path, resources: Resources) -> None:
        self.events: list[ProgressEvent] = []
        self.ctx = Context(state_dir, resources, sink=self._note, effect="write")
        self.task: Task = create_task(state_dir, "unit", "fake", Sources())
        self.endpoint: Any = FakeEndpoint()

    async def _note(self, event: ProgressEvent) -> None:
        self.events.append(event)

    async def connect(self) -> World:
        """Make the context's connection lead to the fake."""
        config = self.endpoint.config

        async def make() -> Any:
            return self.endpoint

        await self.ctx.resources.get(f"endpoint {config.model_dump_json()}", make, lambda _known: True)
        return self
