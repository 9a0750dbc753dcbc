"""Schemas stay in the subset that every client understands."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from vaws_mcp.core.models import EnvVars, Names, Request, Words
from vaws_mcp.core.schema import plain_schema


class Inner(BaseModel):
    title: str = Field(description="A field that is called like a keyword.")
    size: int | None = None


class Outer(Request):
    """A docstring that must not become the schema's description."""

    name: str | None = Field(default=None, min_length=1, description="A name.")
    mode: Literal["a", "b"] = Field(default="a", description="A mode.")
    inner: Inner = Field(description="Something nested.")
    words: Words = Field(default=(), description="Words.")
    names: Names = Field(default=(), description="Names.")
    env: EnvVars = Field(default_factory=dict, description="Variables.")


def test_optional_fields_are_simply_not_required() -> None:
    schema = plain_schema(Outer)
    assert schema["required"] == ["inner"]
    assert schema["properties"]["name"] == {"type": "string", "minLength": 1, "description": "A name."}


def test_nested_models_are_written_in_place() -> None:
    inner = plain_schema(Outer)["properties"]["inner"]
    assert inner["type"] == "object"
    assert inner["properties"]["size"] == {"type": "integer"}
    assert inner["properties"]["title"]["description"] == "A field that is called like a keyword."


def test_the_rest_is_plain_and_closed() -> None:
    schema = plain_schema(Outer)
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert schema.keys() == {"type", "additionalProperties", "properties", "required"}
    assert schema["properties"]["mode"]["enum"] == ["a", "b"]
    for name in ("words", "names"):
        assert schema["properties"][name]["items"] == {"type": "string"}
    assert schema["properties"]["env"]["additionalProperties"] == {"type": "string"}


def test_words_and_pairs_are_taken_in_both_forms() -> None:
    def outer(**fields: Any) -> Outer:
        return Outer.model_validate({"inner": {"title": "t"}, **fields})

    assert outer(words="--a 'b c'").words == outer(words=["--a", "b c"]).words == ("--a", "b c")
    assert outer(names="one").names == ("one",)
    assert outer(env=["A=1=2", "B="]).env == outer(env={"A": "1=2", "B": ""}).env
