"""Arguments that try to be executed, for every text that any operation takes."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import vaws_mcp
from vaws_mcp.core.operation import Operation

# What runs commands on purpose: the text of a command, and what a running command is given to read.
EXECUTED = {"command", "stdin"}
# Every operation has these, and one of them stands for all.
SHARED = {"endpoint", "container", "identity_file", "jump", "accept_new", "context_file"}

KNOWN: dict[str, Any] = {
    "command": "true",
    "action": "open",
    "remote_port": 1,
    "slug": "t",
    "state": ["a=main", "b=other"],
}


def operations() -> list[Operation]:
    """Return every operation there is, also such as the catalogue does not list yet."""
    found: dict[str, Operation] = {}
    for module in pkgutil.walk_packages(vaws_mcp.__path__, "vaws_mcp."):
        if module.name.endswith(".operations"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Operation):
                    found[f"{module.name}.{value.name}"] = value
    return list({id(value): value for value in found.values()}.values())


def payloads(canary: Path) -> list[str]:
    """Return texts that create a file when a shell, ssh, git or an expansion gets to read them as anything but text."""
    touch = f"touch {canary}"
    return [
        f"x$({touch})`{touch}`;{touch}\n{touch}\n&{touch}|{touch}||{touch} #",
        f"';{touch};'",
        f'";{touch};"',
        f"$({touch})",
        f"-oProxyCommand={touch}",
        f"--upload-pack={touch};",
        f"--exec={touch}",
        f"a;{touch}",
        f"${{IFS}}$({touch.replace(' ', '${IFS}')})",
    ]


def sample(schema: dict[str, Any], definitions: dict[str, Any], text: str) -> Any:
    """Return a value of a JSON schema with ``text`` in every place for text, or None when it has none."""
    if "$ref" in schema:
        return sample(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions, text)
    for choice in schema.get("anyOf", []):
        if (value := sample(choice, definitions, text)) is not None:
            return value
    kind = schema.get("type")
    if kind == "string" and "enum" not in schema and "const" not in schema:
        return text
    if kind == "array":
        item = sample(schema.get("items", {"type": "string"}), definitions, text)
        return None if item is None else [item]
    if kind == "object":
        return _object(schema, definitions, text)
    return None


def _object(schema: dict[str, Any], definitions: dict[str, Any], text: str) -> Any:
    fields = schema.get("properties")
    if fields:
        needed = {name: field for name, field in fields.items() if name in schema.get("required", [])}
        return {name: sample(field, definitions, text) for name, field in needed.items()}
    if isinstance(schema.get("additionalProperties"), dict) or schema.get("additionalProperties") is True:
        return {text.replace("=", ""): text, "A": text}
    return None


def minimal(operation: Operation, **known: Any) -> dict[str, Any]:
    """Return the least arguments that an operation accepts or nearly so."""
    schema = operation.request.model_json_schema()
    values: dict[str, Any] = {}
    for name, field in operation.request.model_fields.items():
        if name in known:
            values[name] = known[name]
        elif field.is_required():
            value = sample(schema["properties"][name], schema.get("$defs", {}), "x")
            values[name] = 1 if value is None else value
    return values


def attempts(operation: Operation, text: str, **known: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the name of each field that takes text, and arguments with ``text`` in it."""
    schema = operation.request.model_json_schema()
    base = minimal(operation, **{**KNOWN, **known})
    found: list[tuple[str, dict[str, Any]]] = []
    for name, field in schema.get("properties", {}).items():
        value = None if name in EXECUTED else sample(field, schema.get("$defs", {}), text)
        if value is not None:
            found.append((name, {**base, name: value}))
    if "state" in schema["properties"]:
        found += [("state", {**base, "state": [state, "b=other"]}) for state in (f"a={text}", f"{text}=main")]
    return found
