"""Records: pydantic models with a ``schema`` field, written atomically and read with suspicion."""

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import orjson
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.core.files import write_atomic

LOCK_WAIT_S = 20.0


class Record(BaseModel):
    """Base of everything that is kept on disk. Subclasses fix ``schema_`` to one literal."""

    model_config = ConfigDict(populate_by_name=True, extra="ignore", serialize_by_alias=True)

    schema_: str = Field(alias="schema")


R = TypeVar("R", bound=Record)


def dump_json(value: Any) -> bytes:
    """Return indented JSON with a final newline, for files that people read."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)


def save(path: Path, record: Record) -> None:
    """Write a record atomically. Callers that read, change and write hold ``locked`` around it."""
    write_atomic(path, dump_json(record.model_dump(mode="json", by_alias=True)))


def read_json(path: Path) -> Any:
    """Return the JSON value of a file.

    Raises: FileNotFoundError when it is absent. Failure ``torn_record`` when it is no JSON; the file is left as it is.
    """
    raw = path.read_bytes()
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise torn(path, f"it is not JSON ({error})") from None


def load(path: Path, model: type[R]) -> R:
    """Return the record in ``path``.

    Raises: FileNotFoundError when it is absent. Failure ``torn_record`` when it is torn, foreign or of another schema;
    the file is left as it is.
    """
    value = read_json(path)
    expected = model.model_fields["schema_"].default
    found = value.get("schema") if isinstance(value, dict) else None
    if found != expected:
        raise torn(path, f"its schema is {found!r}, expected {expected!r}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise torn(path, f"field {where or '?'}: {first['msg']}") from None


def torn(path: Path, why: str) -> Failure:
    """Build the failure for a file that is not the record it should be."""
    return Failure(
        "torn_record",
        f"cannot use {path}: {why}",
        layer="local",
        hint=f"The file was left as it is. Look at it, then move it away: mv {path} {path}.broken",
    )


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock that belongs to a record (``<path>.lock``) while reading, changing and writing it.

    Raises: Blocked when another process keeps it for longer than 20 s.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock_path = path.with_name(path.name + ".lock")
    try:
        with FileLock(lock_path, timeout=LOCK_WAIT_S, poll_interval=0.01):
            yield
    except Timeout:
        raise Blocked(
            "record_locked",
            f"another process has held {lock_path} for {LOCK_WAIT_S:.0f} s",
            layer="local",
            hint="Wait for the other call to end and repeat this one.",
            retry_safe=True,
        ) from None
