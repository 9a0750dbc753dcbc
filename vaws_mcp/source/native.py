"""The native-input gate: whether compiled parts that were built in one state of the code fit another."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.policy import policy_params

LOOK_S = 150.0  # sourcing vendor scripts for the first time can take this long
MOST_NAMED = 50


@dataclass(frozen=True)
class Digest:
    """The identity of everything that native parts are built from. ``value`` is None when it is unknown: ``why``.

    ``parts`` are files by mode and object id (a submodule by its commit), versions, and variables; null is absent.
    """

    value: str | None
    why: str | None = None
    parts: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    tree: str | None = None


@dataclass(frozen=True)
class NativeVerdict:
    """How a digest compares with the first one: ``same``, ``changed`` or ``unverified``; which inputs, and why."""

    status: str
    inputs: tuple[str, ...] = ()
    why: str | None = None

    def flags(self) -> dict[str, bool]:
        """Return the result fields that a state carries when it was measured all the same."""
        named = {"changed": "native_input_changed", "unverified": "native_input_unverified"}
        return {named[self.status]: True} if self.status in named else {}


async def native_digest(endpoint: Endpoint, repo: str) -> Digest:
    """Return the digest of a tree of the endpoint as it stands on disk; never raises for what cannot be found out."""
    params = {"repo": repo, "env_spec": endpoint.env_spec(), **policy_params(endpoint.config)}
    try:
        answer = (await endpoint.call("tree.native", params, deadline_s=LOOK_S)).result
    except Failure as failure:
        if failure.layer == "transport":
            raise
        return Digest(None, failure.message)
    parts: dict[str, str | None] = answer["parts"]
    trouble: dict[str, str] = answer["trouble"]
    if trouble:
        return Digest(None, "; ".join(f"{name}: {why}" for name, why in trouble.items()), parts, answer["tree"])
    text = json.dumps(parts, sort_keys=True).encode()
    return Digest(hashlib.sha256(text).hexdigest(), None, parts, answer["tree"])


def differing(one: Digest, other: Digest) -> list[str]:
    """Return the names of the inputs that differ, such as ``file csrc/op.cpp`` or ``cann toolkit``."""
    names = one.parts.keys() | other.parts.keys()
    absent = object()
    return sorted(name for name in names if one.parts.get(name, absent) != other.parts.get(name, absent))


def compare_native(first: Digest, now: Digest) -> NativeVerdict:
    """Hold the native inputs of a state against those of the first one. What is unknown is never taken for equal."""
    if first.value is None or now.value is None:
        return NativeVerdict("unverified", why=first.why or now.why or "unknown")
    if first.value == now.value:
        return NativeVerdict("same")
    return NativeVerdict("changed", tuple(differing(first, now)))


def require_native(first: Digest, now: Digest, label: str) -> None:
    """Let a state pass whose native inputs are proven to be those of the first state.

    Raises: Blocked ``native_inputs_differ`` that names them, or ``native_inputs_unverified`` that says why.
    """
    verdict = compare_native(first, now)
    if verdict.status == "same":
        return
    code, text = "native_inputs_unverified", f"the native inputs of state {label} cannot be verified: {verdict.why}"
    if verdict.status == "changed":
        code, text = "native_inputs_differ", f"{label} has other native inputs than the first state: {named(verdict)}"
    raise Blocked(
        code,
        text,
        layer="remote_env",
        hint="What is compiled was built for one state only. Build and measure each state on its own, or allow it with "
        "allow_stale_native=true (--allow-stale-native).",
        phase="native_gate",
        fields={"native_inputs": list(verdict.inputs[:MOST_NAMED])},
    )


def named(verdict: NativeVerdict) -> str:
    """Return the first inputs of a verdict in one line."""
    names = [name.removeprefix("file ") for name in verdict.inputs]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
