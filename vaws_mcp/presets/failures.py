"""Failures of preset files. Codes: see each function."""

from pathlib import Path

from vaws_mcp.core.failures import Refused


def preset_unknown(kind: str, name: str, known: list[str], near: list[str]) -> Refused:
    """No shipped file has this name."""
    suggestion = f" Did you mean {near[0]}?" if near else ""
    return Refused(
        "preset_unknown",
        f"there is no preset {name!r} in {kind}; shipped: {', '.join(known) or 'none'}",
        hint=f"Give a shipped name, or the path of a JSON file (with a slash or .json).{suggestion}",
    )


def preset_unreadable(path: Path, why: str) -> Refused:
    """The file cannot be read."""
    return Refused("preset_unreadable", f"cannot read {path}: {why}", layer="local", hint="Correct the path.")


def preset_invalid(path: Path, why: str) -> Refused:
    """The file is no JSON, of another schema, or has a wrong or unknown field."""
    return Refused("preset_invalid", f"cannot use {path}: {why}", layer="local", hint="Correct the file.")
