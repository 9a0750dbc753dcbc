"""What an execution should be, and the spec that says so to its supervisor."""

import getpass
import hashlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from vaws_mcp.endpoint.models import EndpointConfig

SPEC_SCHEMA = 1
STOP_STEPS: dict[str, float] = {"int_s": 15.0, "term_s": 10.0, "kill_s": 10.0}
RESERVATION_IDLE_S = 600.0

Kind = Literal["run", "serve", "hold", "reservation"]


@dataclass(frozen=True)
class DeviceRequest:
    """Devices that an execution needs: these logic ids, or any ``count`` of them.

    ``of_reservation`` takes them from the reservation that the execution uses: all, or only ``ids``. ``assume_free``
    goes without a probe and ``skip_health`` without the health check; both are recorded and bar formal results.
    """

    ids: tuple[str, ...] = ()
    count: int | None = None
    assume_free: bool = False
    skip_health: bool = False
    of_reservation: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the request in the form of a spec."""
        wanted: dict[str, Any] = {}
        if self.ids:
            wanted["ids"] = list(self.ids)
        elif self.of_reservation:
            wanted["same_as_reservation"] = True
        else:
            wanted["count"] = self.count
        flags = {"assume_free": self.assume_free, "skip_health": self.skip_health}
        return wanted | {name: True for name, value in flags.items() if value}


@dataclass(frozen=True)
class TreeUse:
    """A source tree that an execution keeps still (``shared``) or changes (``exclusive``)."""

    path: str
    mode: Literal["shared", "exclusive"] = "shared"


@dataclass(frozen=True)
class Hold:
    """How long an execution without a command holds what it was given.

    It ends when nothing has run in it and nobody has touched it for ``idle_s``, and ``for_s`` after the grant.
    """

    idle_s: float = RESERVATION_IDLE_S
    for_s: float | None = None


@dataclass(frozen=True)
class Wanted:
    """What an execution should be. ``devices`` None is CPU work, which takes no lease and no probe.

    ``reservation`` names the execution whose devices, ports and trees it uses. ``receipt`` are facts about the launch
    for its record. ``idle_s`` ends a service that nobody has touched for so long. ``identity`` is what makes two
    requests for a service the same; None compares everything that was asked for.
    """

    command: list[str]
    kind: Kind = "run"
    service: str | None = None
    cwd: str | None = None
    env: dict[str, str | None] = field(default_factory=dict[str, str | None])
    env_spec: dict[str, Any] = field(default_factory=dict[str, Any])
    ports: list[int] = field(default_factory=list[int])
    devices: DeviceRequest | None = None
    hold: Hold | None = None
    reservation: str | None = None
    trees: tuple[TreeUse, ...] = ()
    timeout_s: float | None = None
    idle_s: float | None = None
    owner: str | None = None
    receipt: dict[str, Any] = field(default_factory=dict[str, Any])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    identity: Mapping[str, Any] | None = None


def spec_of(task_id: str, execution_id: str, wanted: Wanted, lease_dir: str) -> dict[str, Any]:
    """Return the spec of an execution for its endpoint."""
    spec: dict[str, Any] = {
        "schema": SPEC_SCHEMA,
        "execution_id": execution_id,
        "task_id": task_id,
        "service": wanted.service,
        "argv": wanted.command,
        "cwd": wanted.cwd,
        "env": wanted.env,
        "env_spec": wanted.env_spec,
        "ports": wanted.ports,
        "devices": _devices(wanted.devices),
        "stop": STOP_STEPS,
        "labels": wanted.labels,
        "lease_dir": lease_dir,
        "owner": wanted.owner or owner(),
        "timeout_s": wanted.timeout_s,
        "reservation": wanted.reservation,
        "trees": [{"path": tree.path, "mode": tree.mode} for tree in wanted.trees],
        "launch_receipt": wanted.receipt,
    }
    if wanted.hold is not None:
        spec["hold"] = {"idle_s": wanted.hold.idle_s, "for_s": wanted.hold.for_s}
    if wanted.idle_s is not None:
        spec["idle_s"] = wanted.idle_s
    return spec


def _devices(asked: DeviceRequest | None) -> Any:
    return "none" if asked is None else asked.as_json()


def owner() -> str:
    """Return who asks, as other people see it in their queue: ``user@laptop``."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def identity_parts(config: EndpointConfig, wanted: Wanted) -> dict[str, str]:
    """Return a short digest of each thing that makes two requests the same, by its name. Values may be secret."""
    asked: Mapping[str, Any] = wanted.identity or {
        "command": wanted.command,
        "cwd": wanted.cwd,
        "env": wanted.env,
        "ports": wanted.ports,
        "devices": _devices(wanted.devices),
        "reservation": wanted.reservation,
        "timeout": wanted.timeout_s,
    }
    return {"endpoint": _digest(config.address)} | {name: _digest(value) for name, value in asked.items()}


def identity_digest(parts: Mapping[str, str]) -> str:
    """Return one digest for all parts of an identity."""
    return _digest(dict(parts))


def _digest(value: Any) -> str:
    raw = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(raw).hexdigest()[:16]
