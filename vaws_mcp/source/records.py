"""What is written down before a tree is changed, so that any process can put it back."""

from typing import Literal

from pydantic import Field

from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.source.stash import SavedWork
from vaws_mcp.store.records import Record

FILE = "tree.json"
FILES = "tree*.json"
"""All records of a run, one for each tree that it changes."""


class TreeRecord(Record):
    """``tree.json`` of a run: where the tree stood, and the commits that the run checks out in it.

    ``who`` is the run's name in the tree's lock, and ``reservation`` the execution that holds it. ``stash_ref`` is set
    when uncommitted work is to be put aside, ``stash`` once it is saved. ``patch_file`` lies beside the record while a
    patch may be applied.
    """

    schema_: Literal["vaws.tree.v1"] = Field(default="vaws.tree.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    endpoint: EndpointConfig
    repo: str
    branch: str | None
    sha: str
    tree: str
    ours: list[str]
    put_back: bool = False
    # Since records of runs that may have been killed outlive an update, what is new has a default.
    who: str = "run"
    stash_ref: str | None = None
    stash: list[SavedWork] = Field(default_factory=list[SavedWork])
    patch_file: str | None = None
    reservation: str | None = None
