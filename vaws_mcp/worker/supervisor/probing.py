"""The probe of the devices as the supervisor makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, Optional

from ..refusal import Refusal

if TYPE_CHECKING:
    from ..engine.npu.probe import Snapshot

PROBE_BOUND_S = 30.0

Check = Callable[[], None]
Take = Callable[[Dict[str, str], float, Check], "Snapshot"]


class Probing:
    """Makes probes in the environment of the command. ``check`` is called all the while and may raise to end one."""

    def __init__(self, env: Dict[str, str], check: Check, take: Optional[Take] = None) -> None:
        self._env = env
        self._check = check
        self._take = take

    def now(self) -> Snapshot:
        """Return a snapshot that was begun after this call; a probe that cannot be made is one that is not ok.

        Raises: what ``check`` raises.
        """
        from ..engine.npu.probe import Snapshot, snapshot  # only here: what needs no device shall not wait for it

        try:
            return (self._take or snapshot)(self._env, PROBE_BOUND_S, self._check)
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever breaks a probe, nothing is free then
            message = f"{type(error).__name__}: {error}"
            hint = "Run npu-smi info on the endpoint and see what it says."
            return Snapshot(False, {"code": "probe_failed", "message": message, "hint": hint})
