"""Finding and reading preset files: shipped ones by name, others by path."""

import difflib
import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import vaws_mcp
from vaws_mcp.presets.failures import preset_invalid, preset_unknown, preset_unreadable

MAX_BYTES = 1 << 20


class Preset(BaseModel):
    """Base of every preset file. Unknown keys are refused; subclasses fix ``schema_`` to one literal."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    schema_: str = Field(alias="schema")
    name: str


P = TypeVar("P", bound=Preset)


def presets_dir() -> Path:
    """Return the directory of the shipped files: inside the installed package, else beside it in a source tree."""
    package = Path(vaws_mcp.__file__).parent
    packaged = package / "_presets"
    return packaged if packaged.is_dir() else package.parent / "presets"


def shipped_names(kind: str) -> list[str]:
    """Return the names of the shipped files of a kind, such as ``runtimes``."""
    return sorted(path.stem for path in (presets_dir() / kind).glob("*.json"))


def load_preset(kind: str, given: str, model: type[P]) -> P:
    """Return the preset that is shipped under a name, or the one in a file when ``given`` looks like a path.

    Raises: Refused ``preset_unknown``, ``preset_unreadable`` or ``preset_invalid`` that names the file and the field.
    """
    if "/" in given or given.endswith(".json"):
        return read_preset(Path(given).expanduser(), model)
    names = shipped_names(kind)
    if given not in names:
        raise preset_unknown(kind, given, names, difflib.get_close_matches(given, names, n=1, cutoff=0.4))
    path = presets_dir() / kind / f"{given}.json"
    preset = read_preset(path, model)
    if preset.name != given:
        raise preset_invalid(path, f"its name is {preset.name!r}")
    return preset


def read_preset(path: Path, model: type[P]) -> P:
    """Return the preset in a file.

    Raises: as ``load_preset``.
    """
    value = read_json(path)
    expected = model.model_fields["schema_"].default
    found = value.get("schema") if isinstance(value, dict) else None
    if found != expected:
        raise preset_invalid(path, f"its schema is {found!r}, expected {expected!r}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise preset_invalid(path, "; ".join(map(problem_text, error.errors()))) from None


def read_json(path: Path) -> Any:
    """Return the JSON value in a file of bounded size.

    Raises: Refused ``preset_unreadable`` or ``preset_invalid``.
    """
    try:
        if not path.is_file():
            raise preset_unreadable(path, "it is not a regular file" if path.exists() else "no such file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise preset_unreadable(path, error.strerror or str(error)) from None
    except ValueError as error:  # a NUL in the path
        raise preset_unreadable(path, str(error)) from None
    if len(raw) > MAX_BYTES:
        raise preset_invalid(path, f"it has more than {MAX_BYTES} bytes")
    try:
        return json.loads(raw, object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise preset_invalid(path, f"it is not JSON ({error})") from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice: which of the values counts would be a guess."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def problem_text(problem: Any) -> str:
    """Return one of pydantic's errors as ``field: what is wrong``."""
    where = ".".join(str(part) for part in problem["loc"])
    text = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {text}" if where else text
