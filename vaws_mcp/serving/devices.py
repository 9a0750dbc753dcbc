"""The devices of a service: what a caller asks for, held against the parallel sizes."""

from collections.abc import Iterable, Mapping

from vaws_mcp.coordinator.asked import VISIBLE_DEVICES, device_request
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.failures import Refused
from vaws_mcp.serving.failures import devices_mismatch
from vaws_mcp.serving.settings import ServeSettings

NO_DEVICES = ("none",)


def asked_devices(ids: Iterable[str], count: int | None, env: Mapping[str, str]) -> DeviceRequest | None:
    """Return the devices that a caller names, or None when it names none or wants none (``none``).

    Raises: Refused ``devices_conflict`` or ``devices_malformed``.
    """
    named = tuple(ids)
    if named != NO_DEVICES:
        return device_request(named, count, env)
    if count is not None or env.get(VISIBLE_DEVICES, "").strip():
        raise Refused(
            "devices_conflict",
            f"devices is none, but npu_count or {VISIBLE_DEVICES} asks for some",
            hint="Leave one of them out.",
        )
    return None


def check_devices(asked: DeviceRequest | None, settings: ServeSettings) -> None:
    """Refuse a number of devices that is not what the parallel sizes come to.

    Raises: Refused ``devices_mismatch``.
    """
    needed = settings.devices_needed()
    if asked is None:
        return
    have = len(asked.ids) if asked.ids else asked.count
    if have != needed:
        named = f"devices {','.join(asked.ids)}" if asked.ids else f"npu_count {asked.count}"
        raise devices_mismatch(f"{named} is {have} device{'' if have == 1 else 's'}", needed)
