"""A flag and a tool argument are two spellings of the same field."""

from __future__ import annotations

import argparse
import json
import shlex
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from vaws_mcp.catalog import BY_NAME, OPERATIONS
from vaws_mcp.cli.commands import Parser, run_command
from vaws_mcp.cli.flags import add_options, arguments_of, is_words
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.operation import Operation
from vaws_mcp.core.schema import plain_schema
from vaws_mcp.dispatch.arguments import parse_request

# No NUL and no lone surrogates: no command line can carry them. Python 3.11 drops a value that is exactly "--".
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda text: text != "--"
)
NAMES = st.text(string.ascii_letters + "_", min_size=1, max_size=6)
LABELS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)
SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "state": LABELS.map(lambda labels: [f"{label}=ref/{label}" for label in labels]),
    "runs": st.integers(3, 1000),
    "warmup_runs": st.integers(0, 2),
}


def values(name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Generate values that the field's schema allows."""
    if name in SPECIAL:
        return SPECIAL[name]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "pattern" in schema:
        return st.from_regex(schema["pattern"].replace("$", r"\Z"), fullmatch=True)
    if schema["type"] == "array" and schema["items"].get("type") == "object":
        return st.lists(st.fixed_dictionaries(fields(schema["items"])), min_size=1, max_size=3)
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1000))
    high = schema.get("maximum", low + 10**6)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": TEXT,
        "boolean": st.booleans(),
        "integer": st.integers(low, high),
        "number": st.floats(low, high, exclude_min="exclusiveMinimum" in schema),
        "array": st.lists(TEXT, min_size=1, max_size=3),
        "object": st.dictionaries(NAMES, TEXT, min_size=1, max_size=3),
    }
    return kinds[schema["type"]]


def fields(schema: dict[str, Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: values(name, field) for name, field in schema["properties"].items()}


@st.composite
def arguments(draw: st.DrawFn, operation: Operation) -> dict[str, Any]:
    """Generate tool arguments for an operation: the required ones and some of the others."""
    schema = plain_schema(operation.request)
    optional = [name for name in schema["properties"] if name not in schema.get("required", [])]
    chosen = draw(st.lists(st.sampled_from(optional), unique=True)) if optional else []
    if "warmup_runs" in chosen and "runs" not in chosen:
        chosen.append("runs")
    if operation.name == "remote_forward":
        chosen.append("remote_port")  # opening one, the default, needs it
    names = dict.fromkeys([*schema.get("required", []), *chosen])
    drawn = {name: draw(values(name, schema["properties"][name])) for name in names}
    try:
        operation.request.model_validate(drawn)
    except ValidationError:
        reject()  # fields that do not go together
    return drawn


def words_of(operation: Operation, given_arguments: dict[str, Any]) -> list[str]:
    """Write tool arguments as a command line."""
    options: list[str] = []
    for name, value in given_arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if name in positional(operation):
            continue
        if isinstance(value, bool):
            options.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, dict):
            options += [f"{flag}={key}={item}" for key, item in value.items()]
        elif isinstance(value, list):
            options += list_options(flag, operation.request.model_fields[name], value)
        else:
            options.append(f"{flag}={value!r}" if isinstance(value, float) else f"{flag}={value}")
    given = [given_arguments[name] for name in positional(operation) if name in given_arguments]
    words = [str(word) for value in given for word in (value if isinstance(value, list) else [value])]
    return [*options, *(["--", *words] if words else [])]


def positional(operation: Operation) -> list[str]:
    return [name.removesuffix("...") for name in operation.positionals]


def list_options(flag: str, field: FieldInfo, value: list[Any]) -> list[str]:
    """Write a list: as JSON when it holds objects, as one fragment of a command line, or repeated."""
    if isinstance(value[0], dict):
        return [f"{flag}={json.dumps(value)}"]
    return [f"{flag}={shlex.join(value)}"] if is_words(field) else [f"{flag}={item}" for item in value]


def parsed(operation: Operation, words: list[str]) -> dict[str, Any]:
    parser = Parser(prog=operation.command, description="")
    add_options(parser, operation)
    return arguments_of(parser.parse(words), operation)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_command_line_has_exactly_the_fields_of_the_request(operation: Operation) -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_options(parser, operation)
    actions = {action.dest: action for action in parser._actions}
    assert actions.keys() == operation.request.model_fields.keys()
    for name, action in actions.items():
        assert action.help
        expected = [] if name in positional(operation) else [f"--{name.replace('_', '-')}"]
        assert action.option_strings[:1] == expected


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_a_flag_and_a_tool_argument_give_the_same_request(operation: Operation, data: st.DataObject) -> None:
    tool = data.draw(arguments(operation))
    ctx = Context(state_dir=Path("/nowhere"), resources=Resources())
    typed = parsed(operation, words_of(operation, tool))
    by_tool, by_flag = parse_request(operation, tool, ctx), parse_request(operation, typed, ctx)
    assert by_flag == by_tool
    assert by_flag.model_fields_set == by_tool.model_fields_set


def test_nothing_given_is_nothing_passed_on() -> None:
    for operation in OPERATIONS:
        assert parsed(operation, []) == {}


def test_aliases_are_flags_too() -> None:
    assert parsed(BY_NAME["remote_bash"], ["--timeout=5", "--workdir=/x"]) == {"timeout_ms": "5", "cwd": "/x"}


def test_the_word_after_an_option_is_its_value_whatever_it_looks_like() -> None:
    operation = BY_NAME["bench_run"]
    words = ["--model", "m", "--serve-args", "--enforce-eager", "--bench-args", "--num-prompts 4", "--tp", "2"]
    assert parsed(operation, words) == {
        "model": "m",
        "serve_args": "--enforce-eager",
        "bench_args": "--num-prompts 4",
        "tp": "2",
    }


@pytest.mark.parametrize(
    ("words", "said", "schema"),
    [
        (["bahs", "ls"], "`remote-dev bash`", "vaws.remote_dev.v1"),
        (["remote_read", "x"], "`remote-dev read`", "vaws.remote_dev.v1"),
        (["bash", "ls", "--no-such-option"], "--no-such-option", "vaws.remote_bash.v1"),
        (["bash", "ls", "--cwd"], "--cwd", "vaws.remote_bash.v1"),
        (["read", "a", "b"], "b", "vaws.remote_read.v1"),
        (["sim-stop", "now"], "now", "vaws.sim_stop.v1"),
    ],
)
def test_wrong_usage_is_refused_with_the_next_step(
    words: list[str], said: str, schema: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command(words) == 2
    answer = json.loads(capfd.readouterr().out)
    assert (answer["schema"], answer["status"], answer["error"]["layer"]) == (schema, "refused", "caller")
    assert said in answer["error"]["message"] + answer["error"]["hint"]
    assert "--help" in answer["error"]["hint"] or "Did you mean" in answer["error"]["hint"]


def test_help_lists_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--help"]) == 0
    listed = capfd.readouterr().out
    for operation in OPERATIONS:
        assert f"  {operation.command} " in listed


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_command_has_its_help(operation: Operation, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command([operation.command, "--help"]) == 0
    assert operation.description.split("\n")[0][:40] in capfd.readouterr().out


def test_a_request_that_is_wrong_is_refused_by_both(tmp_path: Path) -> None:
    ctx = Context(state_dir=tmp_path, resources=Resources())
    operation = BY_NAME["bench_run"]
    for wrong in ({"model": "m", "runs": 0}, {"model": "m", "tp": 0}, {"model": "m", "port": 70000}):
        for form in (wrong, parsed(operation, words_of(operation, wrong))):
            with pytest.raises(Refused):
                parse_request(operation, form, ctx)
