"""Nightly configurations of vllm-ascend as far as they can be used here, and what of them cannot."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.redact import redact

NIGHTLY_CLIENT = "AISBench"
"""The client that upstream measures its nightly baselines with."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NotCarried(_Part):
    """What has no equivalent here, and why. It is not called key: values of such a name are masked."""

    name: str
    why: str


class Baseline(_Part):
    """A figure that upstream expects. It was measured by another client than ours."""

    value: str
    threshold: str | None
    client: str = NIGHTLY_CLIENT


class Block(_Part):
    """One entry of ``benchmarks``. ``bench_args`` are empty unless its ``case_type`` is performance."""

    name: str
    case_type: str | None
    bench_args: list[str] = Field(default_factory=list[str])
    derived: str | None = None
    baseline: Baseline | None = None
    not_carried_over: list[NotCarried] = Field(default_factory=list[NotCarried])
    notes: list[str] = Field(default_factory=list[str])

    @property
    def measures(self) -> bool:
        """Whether it is a performance benchmark."""
        return self.case_type == "performance"


class Case(_Part):
    """One test case. ``unsupported`` and ``problems`` say why it cannot be used."""

    name: str
    model: str | None
    tp: int | None = None
    dp: int | None = None
    port: int | None = None
    served_model_name: str | None = None
    serve_args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] = Field(default_factory=dict[str, str])
    blocks: list[Block] = Field(default_factory=list[Block])
    unresolved: list[str] = Field(default_factory=list[str])
    notes: list[str] = Field(default_factory=list[str])
    not_carried_over: list[NotCarried] = Field(default_factory=list[NotCarried])
    unsupported: str | None = None
    problems: list[str] = Field(default_factory=list[str])

    @property
    def usable(self) -> bool:
        """Whether a benchmark can take settings from it."""
        return self.unsupported is None and not self.problems

    @property
    def workloads(self) -> list[Block]:
        """Its performance benchmarks."""
        return [block for block in self.blocks if block.measures]

    def shown(self) -> dict[str, Any]:
        """Return it for a result, secrets masked."""
        return redact({"usable": self.usable, **self.model_dump(mode="json")})


class File(_Part):
    """A configuration file of single-node cases."""

    cases: list[Case]
    notes: list[str] = Field(default_factory=list[str])


@dataclass(frozen=True)
class Source:
    """Where a file was read. ``commit`` is that of the tree, None outside of one.

    ``modified`` tells whether the file differs from that commit; None when that is not known.
    """

    where: Literal["local", "endpoint"]
    root: str
    path: str
    commit: str | None
    modified: bool | None

    def as_json(self) -> dict[str, Any]:
        """Return it for a result."""
        return {
            "where": self.where,
            "root": self.root,
            "path": self.path,
            "commit": self.commit,
            "modified": self.modified,
        }


@dataclass(frozen=True)
class NightlyChoice:
    """The case, and the performance block if it has one, that settings are taken from. ``name`` is NAME[:CASE]."""

    name: str
    case: Case
    block: Block | None
    source: Source
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return what a result says about it."""
        block = self.block
        carried = [*self.case.not_carried_over, *(block.not_carried_over if block else ())]
        return {
            "name": self.name,
            "case": self.case.name,
            "model": self.case.model,
            "block": block.name if block else None,
            "source": self.source.as_json(),
            "derived": block.derived if block else None,
            "baseline": block.baseline.model_dump(mode="json") if block and block.baseline else None,
            "not_carried_over": [item.model_dump(mode="json") for item in carried],
            "notes": [*self.notes, *self.case.notes, *(block.notes if block else ())],
        }
