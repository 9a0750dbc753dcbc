"""What is written down before a tree is changed, so that any process can put it back."""

from typing import Literal

from pydantic import Field

from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.store.records import Record

FILE = "tree.json"


class TreeRecord(Record):
    """``tree.json`` of a run: where the tree stood, and the commits that the run checks out in it."""

    schema_: Literal["vaws.tree.v1"] = Field(default="vaws.tree.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    endpoint: EndpointConfig
    repo: str
    branch: str | None
    sha: str
    tree: str
    ours: list[str]
    put_back: bool = False
