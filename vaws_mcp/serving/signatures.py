"""The failure signatures: read from ``signatures.json`` and checked."""

import functools
import importlib.resources
import re
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from vaws_mcp.core.failures import Failure

FILE = "signatures.json"
SCHEMA = "vaws.serve_signatures.v1"
Role = Literal["primary", "weak", "secondary", "note", "benign"]


def _compiled(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return re.compile(value, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"{value!r} is no regular expression: {error}") from None


class Signature(BaseModel):
    """One phrase by which a failure is known.

    ``role``: ``primary`` names a cause; ``weak`` one that a primary cause outranks; ``secondary`` a consequence, which
    never wins over a cause; ``note`` counts only in a log without any error; ``benign`` is an error that does not
    matter. Without ``quiet`` the phrase counts only in lines that are not logged as DEBUG, INFO or WARNING. ``needs``
    makes searching cheap: text without any of these words is not searched.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    id: str = Field(pattern=r"^[a-z0-9_]+$")
    cls: str = Field(alias="class", pattern=r"^[a-z_]+$")
    role: Role
    pattern: re.Pattern[str]
    hint: str = Field(min_length=10)
    example: str = Field(min_length=5)
    quiet: bool = False
    needs: tuple[str, ...] = ()

    _compile = field_validator("pattern", mode="before")(_compiled)

    def occurs_in(self, text: str) -> bool:
        """Tell whether the phrase stands anywhere in a text of many lines."""
        if self.needs and not any(word in text for word in self.needs):
            return False
        return self.pattern.search(text) is not None


class Marker(BaseModel):
    """A line that begins or ends a phase of the start. Its first group, when there is one, holds seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    phase: str = Field(pattern=r"^[a-z_]+$")
    edge: Literal["begin", "end"]
    pattern: re.Pattern[str]

    _compile = field_validator("pattern", mode="before")(_compiled)


class SignatureFile(BaseModel):
    """The whole file. Order matters: of two signatures that match one line the first counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal["vaws.serve_signatures.v1"] = Field(alias="schema")
    signatures: tuple[Signature, ...] = Field(min_length=1)
    markers: tuple[Marker, ...]

    @field_validator("signatures")
    @classmethod
    def _consistent(cls, values: tuple[Signature, ...]) -> tuple[Signature, ...]:
        ids = [item.id for item in values]
        double = sorted({name for name in ids if ids.count(name) > 1})
        if double:
            raise ValueError(f"ids occur twice: {', '.join(double)}")
        for item in values:
            if not item.occurs_in(item.example):
                raise ValueError(f"{item.id}: the pattern does not match its own example")
        return values


def parse_signatures(raw: bytes) -> SignatureFile:
    """Return the checked content of a signature file.

    Raises: Failure ``signatures_malformed`` that names the entry.
    """
    try:
        return SignatureFile.model_validate(orjson.loads(raw))
    except (orjson.JSONDecodeError, ValidationError) as error:
        what = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise Failure("signatures_malformed", f"{FILE} cannot be used: {what}", layer="local") from None


@functools.cache
def known_signatures() -> SignatureFile:
    """Return the signatures that come with the package."""
    return parse_signatures(importlib.resources.files("vaws_mcp.serving").joinpath(FILE).read_bytes())
