"""The native-input gate of a comparison: compiled parts fit one state only."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.source.native import Digest, compare_native, named, native_digest, require_native
from vaws_mcp.store.records import Record, load, save

FILE = "native.json"
MOST_NAMED = 50


class NativeRecord(Record):
    """``native.json``: the native inputs of the first state, which those of all others are held against."""

    schema_: Literal["vaws.native.v1"] = Field(default="vaws.native.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    label: str
    value: str | None
    why: str | None = None
    parts: dict[str, str | None] = Field(default_factory=dict)

    def digest(self) -> Digest:
        """Return the digest."""
        return Digest(self.value, self.why, self.parts)


def carry_over(before: Path, run_dir: Path) -> None:
    """Take the first state's inputs over from a run that is resumed, when it had come so far."""
    if (before / FILE).exists():
        save(run_dir / FILE, load(before / FILE, NativeRecord))


async def pass_gate(
    ctx: Context, endpoint: Endpoint, repo: str, run_dir: Path, label: str, *, allow_stale: bool
) -> dict[str, Any]:
    """Hold the tree's native inputs against those of the first state.

    Returns: {sha256, changed, unverified, inputs, why}; ``changed`` null when it cannot be known.
    Raises: Blocked ``native_inputs_differ`` or ``native_inputs_unverified``, unless ``allow_stale``.
    """
    await ctx.progress("native_gate", f"{label}: looking at the native inputs", state=label)
    now = await native_digest(endpoint, repo)
    path = run_dir / FILE
    if not path.exists():
        save(path, NativeRecord(label=label, value=now.value, why=now.why, parts=dict(now.parts)))
    record = load(path, NativeRecord)
    verdict = compare_native(record.digest(), now)
    if not allow_stale:
        require_native(record.digest(), now, label)
    elif verdict.status == "changed":
        ctx.warn(
            f"NATIVE INPUTS CHANGED: {label} has other native inputs than {record.label} ({named(verdict)}), and what "
            "is compiled was built for one of them only; a difference may come from that"
        )
    elif verdict.status == "unverified":
        ctx.warn(f"NATIVE INPUTS UNVERIFIED: whether what is compiled fits {label} is not known: {verdict.why}")
    return {
        "sha256": now.value,
        "changed": {"same": False, "changed": True}.get(verdict.status),
        "unverified": verdict.status == "unverified",
        "inputs": list(verdict.inputs[:MOST_NAMED]),
        "why": verdict.why,
    }
