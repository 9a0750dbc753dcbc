"""Base classes of all request and result models."""

import json
import shlex
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from vaws_mcp.core.failures import Outcome

RESERVED_KEYS = frozenset(
    {
        "schema",
        "status",
        "outcome",
        "summary",
        "warnings",
        "refs",
        "started_at",
        "duration_ms",
        "error",
        "hint",
        "simulated",
    }
)
"""Keys of the result envelope; a result model may not use them for anything else."""


class Request(BaseModel):
    """Base of every request model: unknown arguments are refused, strings of numbers are accepted for numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Result(BaseModel):
    """Base of every result model. Its own fields are the envelope's; subclasses add the operation's fields."""

    model_config = ConfigDict(extra="forbid")

    status: str = Field(default="ok", description="Fine-grained status of the operation.")
    outcome: Outcome = Field(
        default="success", description="success, needs_input, blocked, failed, timeout or cancelled."
    )
    summary: str = Field(default="", description="One sentence that says what happened.")
    hint: str | None = Field(default=None, description="The next call to make, when the work is unfinished.")
    refs: dict[str, str] = Field(default_factory=dict, description="Paths of full logs and records.")


def _split_words(value: Any) -> Any:
    """Accept a command-line fragment as one string; refuse unbalanced quotes."""
    return shlex.split(value) if isinstance(value, str) else value


def _split_pairs(value: Any) -> Any:
    """Accept environments as a mapping or as ``NAME=VALUE`` strings."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return value
    pairs: dict[str, str] = {}
    for item in value:
        name, separator, content = str(item).partition("=")
        if not separator or not name:
            raise ValueError(f"expected NAME=VALUE, got {item!r}")
        pairs[name] = content
    return pairs


def parsed_objects(value: Any) -> Any:
    """Accept a JSON array as text, as the command line gives it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"expected a JSON array: {error}") from None


def _listed(value: Any) -> Any:
    """Accept a single item where a list is expected."""
    return [value] if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_split_words)]
"""Command-line arguments: a list of strings, or one string that is split like a shell does."""

EnvVars = Annotated[dict[str, str], BeforeValidator(_split_pairs)]
"""Environment variables: a mapping, or a list of NAME=VALUE strings."""

Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""A list of strings; a single string counts as a list of one."""
