"""Every operation keeps the promises that front doors, audit and documentation rely on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel

from vaws_mcp.catalog import BY_COMMAND, BY_NAME, OPERATIONS
from vaws_mcp.cli.commands import HIDDEN_COMMANDS, OWN_COMMANDS
from vaws_mcp.core.envelope import schema_name
from vaws_mcp.core.models import RESERVED_KEYS, Request, Result
from vaws_mcp.core.operation import Operation
from vaws_mcp.core.schema import plain_schema
from vaws_mcp.runs.models import RunRequest

every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
PLAIN_VERBS = {"bash", "read", "write", "edit", "ls", "glob", "grep", "probe", "forward"}


def keys_of(node: Any) -> set[str]:
    """All keys of a schema except names of fields."""
    if isinstance(node, list):
        return set[str]().union(*map(keys_of, node))
    if not isinstance(node, dict):
        return set()
    inner = [value for key, value in node.items() if key not in ("properties", "default", "enum")]
    fields = list(node.get("properties", {}).values())
    return set(node).union(*map(keys_of, [*inner, *fields]))


def test_names_and_commands_are_unique() -> None:
    assert len(BY_NAME) == len(BY_COMMAND) == len(OPERATIONS)
    assert not BY_COMMAND.keys() & (OWN_COMMANDS.keys() | HIDDEN_COMMANDS.keys())


@every_operation
def test_it_is_named_and_described(operation: Operation) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", operation.name)
    assert re.fullmatch(r"[A-Z].{5,40}", operation.title)
    first = operation.description.split("\n")[0]
    assert len(first) > 20
    assert operation.description.rstrip().endswith(".")
    assert schema_name(operation.name) == f"vaws.{operation.name}.v1"


@pytest.mark.parametrize("command", [*BY_COMMAND, *OWN_COMMANDS])
def test_a_command_is_noun_verb_or_a_plain_verb(command: str) -> None:
    assert command in PLAIN_VERBS | {"mcp", "demo"} or re.fullmatch(r"[a-z]+(-[a-z]+)+", command)


@every_operation
def test_its_schema_is_plain(operation: Operation) -> None:
    schema = plain_schema(operation.request)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert not keys_of(schema) & {"$ref", "$defs", "anyOf", "oneOf", "allOf", "title"}
    assert schema["properties"].keys() == operation.request.model_fields.keys()
    for field in schema["properties"].values():
        assert field["type"] in {"string", "integer", "number", "boolean", "array", "object"}


@every_operation
def test_every_field_is_described(operation: Operation) -> None:
    models: list[type[BaseModel]] = [operation.request, operation.result]
    for model in models:
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"
            assert field.description.endswith((".", "?"))


@every_operation
def test_its_request_is_closed_and_cannot_be_changed(operation: Operation) -> None:
    assert issubclass(operation.request, Request)
    assert operation.request.model_config.get("extra") == "forbid"
    assert operation.request.model_config.get("frozen") is True


@every_operation
def test_its_result_leaves_the_envelope_alone(operation: Operation) -> None:
    fields = operation.result.model_fields
    assert not (fields.keys() - Result.model_fields.keys()) & RESERVED_KEYS
    for name, field in Result.model_fields.items():
        assert fields[name].annotation == field.annotation


@every_operation
def test_its_positionals_and_aliases_name_fields(operation: Operation) -> None:
    known = operation.request.model_fields.keys()
    assert {name.removesuffix("...") for name in operation.positionals} <= known
    for alias, name in operation.aliases:
        assert name in known
        assert alias not in known


@every_operation
def test_what_can_take_long_is_a_run(operation: Operation) -> None:
    assert bool(operation.run_kind) == issubclass(operation.request, RunRequest)
    if operation.run_kind:
        assert operation.effect != "read"
        assert "context_file" in operation.request.model_fields
