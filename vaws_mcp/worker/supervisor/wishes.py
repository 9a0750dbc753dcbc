"""The parts of a spec that say what an execution needs to have for itself: devices, ports, trees, a hold."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, cast

from ..params import Params
from ..refusal import bad_request
from .choose import DeviceWish
from .trees import EXCLUSIVE, SHARED, TreeWish

_MOST_DEVICES = 1024
_MOST_PORTS = 64


class HoldWish(NamedTuple):
    """A reservation: until ``for_s`` have passed, or nothing ran in it and nobody asked for it for ``idle_s``."""

    idle_s: float = 600.0
    for_s: Optional[float] = None


class Needs(NamedTuple):
    """What an execution needs. Shapes: ``devices`` and ``hold`` are None when none is wanted."""

    devices: Optional[DeviceWish]
    ports: List[int]
    port_count: int
    trees: List[TreeWish]
    hold: Optional[HoldWish]
    reservation: Optional[str]
    lease_dir: Optional[str]
    owner: Optional[str]


def parse_needs(raw: Mapping[str, Any]) -> Needs:
    """Check these parts of a spec. Raises: Refusal ``bad_params`` that names the field."""
    params = Params(raw, "spec.")
    needs = Needs(
        devices=_devices(raw.get("devices")),
        ports=_ports(params),
        port_count=params.integer("port_count", 0),
        trees=_trees(raw.get("trees")),
        hold=_hold(raw.get("hold")),
        reservation=params.optional_text("reservation"),
        lease_dir=_lease_dir(params),
        owner=params.optional_text("owner"),
    )
    if needs.port_count > _MOST_PORTS:
        raise bad_request(f"spec.port_count must be at most {_MOST_PORTS}")
    _check_together(needs)
    return needs


def _check_together(needs: Needs) -> None:
    if needs.hold is not None and needs.reservation is not None:
        raise bad_request("spec.hold and spec.reservation exclude each other: a hold takes devices of its own")
    devices = needs.devices
    if devices is None:
        return
    if needs.reservation is None and devices.reserved:
        raise bad_request("spec.devices.same_as_reservation needs spec.reservation")
    if needs.reservation is not None and devices.how_many is not None:
        raise bad_request("spec.devices.count cannot be asked of a reservation; name ids or same_as_reservation")


def _devices(value: Any) -> Optional[DeviceWish]:
    if value is None or value == "none":
        return None
    if isinstance(value, list):
        return DeviceWish(ids=_ids(cast("List[Any]", value)))
    if not isinstance(value, dict):
        raise bad_request(f'spec.devices must be "none", ids or a count, not {value!r}')
    fields = cast("Dict[str, Any]", value)
    params = Params(fields, "spec.devices.")
    ways = [name for name in ("ids", "count", "same_as_reservation") if fields.get(name)]
    if len(ways) != 1:
        raise bad_request("spec.devices must have exactly one of ids, count and same_as_reservation")
    count = params.integer("count", 1, 1) if ways == ["count"] else None
    if count is not None and count > _MOST_DEVICES:
        raise bad_request(f"spec.devices.count must be at most {_MOST_DEVICES}")
    return DeviceWish(
        ids=_ids(fields["ids"]) if ways == ["ids"] else None,
        how_many=count,
        reserved=ways == ["same_as_reservation"] and params.flag("same_as_reservation"),
        assume_free=params.flag("assume_free"),
        skip_health=params.flag("skip_health"),
    )


def _ids(value: Any) -> List[int]:
    items = cast("List[Any]", value) if isinstance(value, list) else []
    texts = [str(item) for item in items if isinstance(item, (str, int)) and not isinstance(item, bool)]
    if not items or len(texts) != len(items) or not all(text.isdigit() and len(text) < 8 for text in texts):
        raise bad_request(f"spec.devices: logic ids are numbers from 0 on, not {value!r}")
    ids = [int(text) for text in texts]
    if len(set(ids)) != len(ids):
        raise bad_request("spec.devices: a device is named twice")
    return ids


def _ports(params: Params) -> List[int]:
    ports = params.integers("ports")
    if not all(1 <= port <= 65535 for port in ports) or len(set(ports)) != len(ports) or len(ports) > _MOST_PORTS:
        raise bad_request(f"spec.ports must be at most {_MOST_PORTS} different ports between 1 and 65535")
    return ports


def _trees(value: Any) -> List[TreeWish]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad_request("spec.trees must be a list")
    wishes: List[TreeWish] = []
    for item in cast("List[Any]", value):
        if not isinstance(item, dict):
            raise bad_request("spec.trees: each entry must be an object with path and mode")
        params = Params(cast("Dict[str, Any]", item), "spec.trees.")
        wishes.append(TreeWish(params.text("path"), params.choice("mode", [SHARED, EXCLUSIVE])))
    return wishes


def _hold(value: Any) -> Optional[HoldWish]:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise bad_request("spec.hold must be an object or null")
    params = Params(cast("Dict[str, Any]", value), "spec.hold.")
    return HoldWish(params.seconds("idle_s", HoldWish().idle_s), params.optional_seconds("for_s"))


def _lease_dir(params: Params) -> Optional[str]:
    path = params.optional_text("lease_dir")
    if path is not None and not os.path.isabs(path):
        raise bad_request(f"spec.lease_dir must be an absolute path, not {path!r}")
    return path
