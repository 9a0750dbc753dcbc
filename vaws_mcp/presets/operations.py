"""preset_list and preset_show."""

from typing import Any

from pydantic import Field

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.models import Request, Result
from vaws_mcp.core.operation import operation
from vaws_mcp.core.redact import redact
from vaws_mcp.presets.bench import all_presets, find_preset


class PresetListRequest(Request):
    """``preset_list`` takes no arguments."""


class PresetListResult(Result):
    """The presets that have a name."""

    presets: list[dict[str, Any]] = Field(
        description="name, origin (shipped or local), path, and keys that it sets, or error when it cannot be used."
    )


class PresetShowRequest(Request):
    """Arguments of ``preset_show``."""

    name: str = Field(min_length=1, description="Name of a preset, or path of a JSON file.")


class PresetShowResult(Result):
    """A preset as it would be used."""

    name: str = Field(description="Name of the preset.")
    origin: str = Field(description="shipped, local (in the state directory) or file.")
    path: str = Field(description="The file.")
    preset: dict[str, Any] = Field(description="What it says; secrets are masked. It says nothing about other keys.")


@operation("preset_list", title="List presets", effect="read", idempotent=True)
async def preset_list(_request: PresetListRequest, ctx: Context) -> PresetListResult:
    """List the presets for `preset` of bench_run, bench_compare and serve_start: shipped ones and those in
    `.vaws-local/presets/`. A local one takes the place of a shipped one of the same name.
    """
    rows: list[dict[str, Any]] = []
    for found in all_presets(ctx.state_dir):
        row: dict[str, Any] = {"name": found.name, "origin": found.origin, "path": str(found.path)}
        try:
            row["keys"] = list(found.load().given())
        except Refused as refused:
            row["error"] = refused.message
        rows.append(row)
    return PresetListResult(
        presets=rows,
        summary=f"{len(rows)} presets: {', '.join(row['name'] for row in rows) or 'none'}",
        hint="preset_show prints one.",
    )


@operation("preset_show", title="Show a preset", effect="read", idempotent=True, positionals=("name",))
async def preset_show(request: PresetShowRequest, ctx: Context) -> PresetShowResult:
    """Print what a preset says, checked as a benchmark would check it."""
    found = find_preset(request.name, ctx.state_dir)
    given = found.load().given()
    return PresetShowResult(
        name=found.name,
        origin=found.origin,
        path=str(found.path),
        preset=redact(given),
        summary=f"preset {found.name} ({found.origin}) sets {', '.join(given) or 'nothing'}",
        hint=f"Use it with bench_compare preset={request.name}; explicit arguments win over it.",
    )
