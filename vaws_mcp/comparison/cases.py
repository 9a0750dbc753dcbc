"""The cases of a comparison: the same service measured under different loads. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.serving.settings import without_flags

DEFAULT_CASE = "default"


class Case(NamedTuple):
    """A load: its name and the arguments of the client."""

    name: str
    bench_args: tuple[str, ...]


def cases_of(settings: BenchSettings) -> list[Case]:
    """Return a case for each request count, or the one case ``default``."""
    if not settings.request_counts:
        return [Case(DEFAULT_CASE, settings.bench_args)]
    return [
        Case(
            f"requests_{count}",
            with_options(settings.bench_args, {"--num-prompts": str(count), "--max-concurrency": str(count)}),
        )
        for count in settings.request_counts
    ]


def with_options(words: tuple[str, ...], options: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the arguments with these options instead of what they said about them; None is an option without value."""
    added = [word for name, value in options.items() for word in ([name] if value is None else [name, value])]
    return (*without_flags(words, options), *added)
