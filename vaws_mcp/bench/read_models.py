"""Request and result of bench_read."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from vaws_mcp.core.models import Names, Request, Result

ResultStatus = Literal["ok", "unusable", "unreadable"]


class BenchReadRequest(Request):
    """Arguments of ``bench_read``."""

    files: Names = Field(
        min_length=1, description="Result files of `vllm bench serve`, `latency` or `throughput` on this machine."
    )
    console: str | None = Field(
        default=None,
        min_length=1,
        description="The client's output on this machine: it adds what only the console says, and must agree.",
    )


class ReadResult(BaseModel):
    """One result in a file. What the file does not say is null.

    Units: ms and tokens per second for `serve`, seconds for `latency`; acceptance rates are fractions.
    """

    file: str = Field(description="The file.")
    index: int = Field(default=0, description="Position in a file that holds several results (--append-result).")
    kind: Literal["serve", "latency", "throughput"] | None = Field(default=None, description="The benchmark.")
    status: ResultStatus = Field(description="ok, unusable or unreadable.")
    usable: bool = Field(description="Whether the figures may be used: nothing speaks against them.")
    problems: list[str] = Field(default_factory=list, description="Every reason why not.")
    metrics: dict[str, float | None] = Field(default_factory=dict, description="Figures by our names.")
    details: dict[str, Any] = Field(
        default_factory=dict,
        description="Requests and tokens asked for and achieved, model, date, arguments, acceptance by position.",
    )
    client_version: str | None = Field(default=None, description="Version that the console states.")
    client_since: str | None = Field(default=None, description="Oldest vLLM whose client writes these keys.")


class BenchReadResult(Result):
    """What the files say. ``usable`` is true only when every result is."""

    usable: bool = Field(description="Whether every result is usable.")
    problems: list[str] = Field(default_factory=list[str], description="The problems of all results.")
    metrics: dict[str, float | None] = Field(
        default_factory=dict[str, float | None], description="Figures of the only result; empty when there are several."
    )
    results: list[ReadResult] = Field(description="One for each result, in the order of files and of writing.")
