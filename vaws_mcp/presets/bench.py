"""Presets of a service and its benchmark: ``presets/<name>.json``. A preset never names the model."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from vaws_mcp.presets.failures import preset_invalid, preset_unknown
from vaws_mcp.presets.loading import presets_dir, problem_text, read_json

KIND = "presets"

Filled = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]+$")]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Word = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^-\x00-\x1f][^\x00-\x1f]*$")]
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Size = Annotated[int, Field(ge=1, le=1024)]
Length = Annotated[int, Field(ge=1, le=10_000_000)]


class _Strict(BaseModel):
    """Types are exact: ``"8"`` and ``true`` are no numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FixedRequests(_Strict):
    """Identical requests of an exact length, in tokens. ``path`` is a data set that is there already."""

    input_len: Length
    output_len: Length
    path: Filled | None = None


class BenchPreset(_Strict):
    """Settings of a service and its benchmark. What a preset leaves out, it does not say anything about."""

    tp: Size | None = None
    dp: Size | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    devices: Word | list[Annotated[int, Field(ge=0)]] | None = None
    served_model_name: Word | None = None
    health_timeout: float | None = Field(default=None, gt=0, le=1e6, allow_inf_nan=False)
    env: dict[EnvName, Text] | None = None
    bench_env: dict[EnvName, Text] | None = None
    serve_args: list[Text] | None = None
    bench_args: list[Text] | None = None
    vllm_ref: Word | None = None
    runs: int | None = Field(default=None, ge=1, le=1000)
    warmup_runs: int | None = Field(default=None, ge=0)
    fixed_request_dataset: FixedRequests | None = None
    bench_request_counts: list[Annotated[int, Field(ge=1, le=1_000_000)]] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.runs is not None and self.warmup_runs is not None and self.warmup_runs >= self.runs:
            raise ValueError(f"warmup_runs ({self.warmup_runs}) must be fewer than runs ({self.runs})")
        counts = self.bench_request_counts or []
        if len(set(counts)) != len(counts):
            raise ValueError("bench_request_counts names a count twice")
        return self

    def given(self) -> dict[str, Any]:
        """Return what the preset says, by key, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


@dataclass(frozen=True)
class Found:
    """A preset and where it lies: shipped with the package, in ``.vaws-local/presets/`` (local), or a file."""

    name: str
    path: Path
    origin: Literal["shipped", "local", "file"]
    hides_shipped: bool = False

    def load(self) -> BenchPreset:
        """Return what the file says.

        Raises: Refused ``preset_unreadable`` or ``preset_invalid`` that names the file, the key and the nearest key.
        """
        value = read_json(self.path)
        if not isinstance(value, dict):
            raise preset_invalid(self.path, "it is no JSON object")
        _refuse_unknown(self.path, list(map(str, value)))
        nulls = sorted(str(key) for key, item in value.items() if item is None)
        if nulls:
            raise preset_invalid(self.path, f"{', '.join(nulls)}: null says nothing; leave the key out")
        try:
            return BenchPreset.model_validate(value)
        except ValidationError as error:
            raise preset_invalid(self.path, "; ".join(map(problem_text, error.errors()))) from None


def _refuse_unknown(path: Path, keys: list[str]) -> None:
    known = list(BenchPreset.model_fields)
    if "model" in keys:
        raise preset_invalid(path, "a preset never names the model; give it as the argument model")
    parts: list[str] = []
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            parts.append(f"{key!r} (did you mean {near[0]!r}?)" if near else repr(key))
    if parts:
        raise preset_invalid(path, f"unknown keys: {', '.join(parts)}; known: {', '.join(known)}")


def all_presets(state_dir: Path) -> list[Found]:
    """Return the presets that have a name, sorted by it. A local one takes the place of a shipped one."""
    shipped = {path.stem: path for path in presets_dir().glob("*.json")}
    local = {path.stem: path for path in (state_dir / "presets").glob("*.json")}
    found = [Found(name, path, "shipped") for name, path in shipped.items() if name not in local]
    found += [Found(name, path, "local", hides_shipped=name in shipped) for name, path in local.items()]
    return sorted(found, key=lambda one: one.name)


def find_preset(given: str, state_dir: Path) -> Found:
    """Return the preset of a name, or of the path of a JSON file (with a slash, or ending in ``.json``).

    Raises: Refused ``preset_unknown`` that names the nearest.
    """
    if "/" in given or given.endswith(".json"):
        path = Path(given).expanduser()
        return Found(path.stem, path, "file")
    known = {one.name: one for one in all_presets(state_dir)}
    if given not in known:
        raise preset_unknown(KIND, given, sorted(known), difflib.get_close_matches(given, known, n=1, cutoff=0.4))
    return known[given]
