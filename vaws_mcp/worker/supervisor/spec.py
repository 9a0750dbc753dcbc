"""What an execution is asked to be, and where its files are."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, cast

from ..params import Params
from ..refusal import Refusal, bad_request
from .wishes import Needs, parse_needs

SCHEMA = 1
MARKER = "VAWS_EXECUTION_ID"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_RESERVED = frozenset(("VAWS_SIM", "VAWS_SIM_MARKER", "VAWS_SIM_BOOT_ID"))


class StopTimes(NamedTuple):
    """How long each step of a stop may take. Units: seconds."""

    int_s: float = 10.0
    term_s: float = 5.0
    kill_s: float = 5.0


class Spec(NamedTuple):
    """A checked execution spec. ``argv`` is empty for a hold; ``facts`` go into the launch receipt as they are.

    ``idle_s`` ends a command that nobody has touched for so long.
    """

    execution_id: str
    argv: List[str]
    cwd: Optional[str]
    env: Dict[str, Optional[str]]
    env_spec: Dict[str, Any]
    needs: Needs
    facts: Dict[str, Any]
    timeout_s: Optional[float]
    idle_s: Optional[float]
    stop: StopTimes
    raw: Dict[str, Any]


def parse(raw: Dict[str, Any]) -> Spec:
    """Check a spec as it came from the caller. Raises: Refusal ``bad_params`` that names the field."""
    params = Params(raw, "spec.")
    if params.integer("schema", SCHEMA) != SCHEMA:
        raise bad_request(f"spec.schema {raw.get('schema')!r} is not known; this worker knows {SCHEMA}")
    needs = parse_needs(raw)
    argv = params.texts("argv")
    if needs.hold is not None and argv:
        raise bad_request("spec.argv must be empty with spec.hold: a hold runs nothing")
    if needs.hold is None and (not argv or not argv[0]):
        raise bad_request("spec.argv must name a command")
    return Spec(
        execution_id=checked_id(params.text("execution_id")),
        argv=argv,
        cwd=params.optional_text("cwd"),
        env=_environment(params),
        env_spec=params.mapping("env_spec"),
        needs=needs,
        facts=params.mapping("launch_receipt"),
        timeout_s=params.optional_seconds("timeout_s"),
        idle_s=params.optional_seconds("idle_s"),
        stop=stop_times(params.mapping("stop"), StopTimes(), "spec.stop."),
        raw=raw,
    )


def _environment(params: Params) -> Dict[str, Optional[str]]:
    env = params.environment("env")
    for name in env:
        if name in _RESERVED or (name.startswith("VAWS_") and not name.startswith("VAWS_SIM_")):
            message = f"spec.env.{name}: names that begin with VAWS_ are set by the supervisor alone"
            raise Refusal("reserved_env", message, "caller", hint="Leave the variable out, or give it another name.")
    return env


def stop_times(values: Mapping[str, Any], default: StopTimes, where: str = "") -> StopTimes:
    """Return the times of a stop, each from ``values`` or else from ``default``."""
    params = Params(values, where)
    return StopTimes(
        params.seconds("int_s", default.int_s),
        params.seconds("term_s", default.term_s),
        params.seconds("kill_s", default.kill_s),
    )


def checked_id(execution_id: str) -> str:
    """Return an execution id that is safe as a file name. Raises: Refusal ``bad_params``."""
    if not _ID.match(execution_id):
        raise bad_request(f"{execution_id!r} is no execution id")
    return execution_id


def folder_of_all() -> str:
    """Return the directory that holds all executions of this user."""
    return os.path.join(os.path.expanduser("~"), ".vaws", "executions")


def existing_folder(execution_id: str) -> str:
    """Return the directory of one execution. Raises: Refusal ``not_found``."""
    folder = os.path.join(folder_of_all(), checked_id(execution_id))
    if not os.path.isdir(folder):
        raise Refusal("not_found", f"there is no execution {execution_id} on this endpoint", "caller")
    return folder


def dump(raw: Dict[str, Any]) -> bytes:
    """Return the one form of a spec that is written to disk and compared."""
    return json.dumps(raw, sort_keys=True, separators=(",", ":")).encode("ascii")


def load(folder: str) -> Dict[str, Any]:
    """Return the spec that was submitted. Raises: Refusal ``torn_record``."""
    path = os.path.join(folder, "spec.json")
    try:
        with open(path, "rb") as stream:
            return cast("Dict[str, Any]", json.loads(stream.read().decode("utf-8")))
    except FileNotFoundError:
        raise Refusal("torn_record", f"{path} is missing") from None
    except ValueError:
        raise Refusal("torn_record", f"{path} is not a spec; it was left alone") from None


def digest_of_environment(env: Dict[str, Optional[str]]) -> Dict[str, Any]:
    """Return the names of the caller's variables and a digest of all; values may be secret and are not kept."""
    text = json.dumps(sorted(env.items()))
    return {"names": sorted(env), "sha256": hashlib.sha256(text.encode("ascii")).hexdigest()}
