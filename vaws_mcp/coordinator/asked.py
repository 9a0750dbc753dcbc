"""What a caller asks for, in the one form that executions know: environment, devices, durations."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from vaws_mcp.coordinator.failures import devices_conflict, reserved_env
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.failures import Refused

VISIBLE_DEVICES = "ASCEND_RT_VISIBLE_DEVICES"
# The simulator's own settings may be handed to simulated programs; these three say where and what it is.
_SIMULATOR = frozenset(("VAWS_SIM", "VAWS_SIM_MARKER", "VAWS_SIM_BOOT_ID"))
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (86_400, 3_600, 60, 1)
LONGEST_HOLD_S = 7 * 86_400


def _split(value: Any) -> Any:
    """Take ``0,1`` as two items, also within a list; numbers count as text."""
    items = value if isinstance(value, list | tuple) else [value]
    return [part.strip() for item in items for part in str(item).split(",") if part.strip()]


DeviceIds = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Logic ids: a list, or one string with commas."""

Ports = Annotated[tuple[int, ...], BeforeValidator(_split)]
"""Port numbers: a list, or one string with commas."""


def checked_environment(env: Mapping[str, str], unset: Iterable[str] = ()) -> dict[str, str | None]:
    """Return the variables to set, and with None those to unset. The device request in ``env`` is not among them.

    Raises: Refused ``reserved_env``.
    """
    unset = tuple(unset)
    reserved = [name for name in (*env, *unset) if _is_reserved(name)]
    if reserved:
        raise reserved_env(reserved)
    bad = [name for name in (*env, *unset) if not name or "=" in name or "\0" in name]
    if bad:
        raise Refused("env_malformed", f"{bad[0]!r} is no name of a variable", hint="Use names without =.")
    asked = set[str](unset)
    kept = {name: value for name, value in env.items() if not (name == VISIBLE_DEVICES and value.strip())}
    return {**kept, **dict.fromkeys(asked)}


def _is_reserved(name: str) -> bool:
    return name in _SIMULATOR or (name.startswith("VAWS_") and not name.startswith("VAWS_SIM_"))


def device_request(
    ids: Iterable[str],
    count: int | None,
    env: Mapping[str, str],
    *,
    assume_free: bool = False,
    skip_health: bool = False,
) -> DeviceRequest | None:
    """Return the devices that a request asks for, or None for CPU work.

    A caller's ``ASCEND_RT_VISIBLE_DEVICES`` is such a request too; only the grant sets the variable.

    Raises: Refused ``devices_conflict`` or ``devices_malformed``.
    """
    named = tuple(ids)
    visible = tuple(_split(env.get(VISIBLE_DEVICES, "")))
    if named and count is not None:
        raise devices_conflict(f"devices {','.join(named)} and npu_count {count} were both given")
    if visible and count is not None:
        raise devices_conflict(f"{VISIBLE_DEVICES}={','.join(visible)} and npu_count {count} were both given")
    if visible and named and set(visible) != set(named):
        raise devices_conflict(f"devices are {','.join(named)}, but {VISIBLE_DEVICES} is {','.join(visible)}")
    named = named or visible
    bad = [item for item in named if not item.isdecimal()]
    if bad or len(set(named)) != len(named):
        why = f"{bad[0]!r} is no logic id" if bad else f"{','.join(named)} names a device twice"
        raise Refused("devices_malformed", f"devices: {why}", hint="Give logic ids such as 0,1; npu_probe shows them.")
    if not named and count is None:
        if assume_free or skip_health:
            raise devices_conflict("assume_free and skip_health say nothing without devices")
        return None
    return DeviceRequest(ids=named, count=count, assume_free=assume_free, skip_health=skip_health)


def duration_s(text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``30m``, ``2h`` or ``1h30m``.

    Raises: Refused ``duration_malformed``, also for nothing and for more than seven days.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    total = sum(int(part or 0) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True)) if match else 0
    if not 0 < total <= LONGEST_HOLD_S:
        raise Refused(
            "duration_malformed",
            f"{text!r} is no duration between 1s and 7d",
            hint="For example 90s, 30m, 2h or 1h30m.",
        )
    return total
