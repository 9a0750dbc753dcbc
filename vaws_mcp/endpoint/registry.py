"""``endpoints.toml``: read strictly, changed without losing what people wrote into it."""

import functools
import time
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vaws_mcp.core.files import write_atomic
from vaws_mcp.endpoint.failures import bad_endpoint_file
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.store.records import locked

FILE = "endpoints.toml"
# A file may change twice within a tick of the clock that dates it, so a young one is read each time.
JUST_WRITTEN_NS = 1_000_000_000


def load_endpoints(state_dir: Path) -> dict[str, EndpointConfig]:
    """Return the named endpoints, always with the built-in ``local``.

    Raises: Refused when the file is not TOML, or an entry has an unknown or wrong field.
    """
    path = state_dir / FILE
    try:
        found = path.stat()
    except FileNotFoundError:
        return {"local": EndpointConfig(name="local")}
    if time.time_ns() - found.st_mtime_ns < JUST_WRITTEN_NS:
        return _read(path)
    return dict(_known(path, (found.st_ino, found.st_size, found.st_mtime_ns)))


@functools.lru_cache(maxsize=8)
def _known(path: Path, _stamp: tuple[int, int, int]) -> dict[str, EndpointConfig]:
    return _read(path)


def _read(path: Path) -> dict[str, EndpointConfig]:
    endpoints = {"local": EndpointConfig(name="local")}
    try:
        tables: Any = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return endpoints
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise bad_endpoint_file(str(path), str(error)) from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise bad_endpoint_file(str(path), f"{name!r} must be a table: [{name}]")
        try:
            endpoints[name] = EndpointConfig.model_validate({"name": name, **table})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise bad_endpoint_file(str(path), f"[{name}] {where}: {first['msg']}") from None
    return endpoints


def present(state_dir: Path, config: EndpointConfig) -> EndpointConfig:
    """Return what ``endpoints.toml`` says today about an endpoint that a record names, else what the record says.

    Raises: as ``load_endpoints``.
    """
    return load_endpoints(state_dir).get(config.name, config)


def save_endpoint(state_dir: Path, config: EndpointConfig) -> None:
    """Add or replace one entry; comments and the other entries stay as they are.

    Raises: Refused as ``load_endpoints``; the file is then left as it is.
    """
    import tomlkit

    path = state_dir / FILE
    with locked(path):
        load_endpoints(state_dir)  # a file that people must correct first is not rewritten
        document = tomlkit.parse(path.read_text("utf-8")) if path.exists() else tomlkit.document()
        table = tomlkit.table()
        for key, value in config.model_dump(mode="json", exclude={"name"}, exclude_defaults=True).items():
            table.add(key, value)
        document[config.name] = table
        write_atomic(path, tomlkit.dumps(document).encode())


def drop_endpoint(state_dir: Path, name: str) -> bool:
    """Remove one entry; tell whether it was there.

    Raises: Refused as ``load_endpoints``; the file is then left as it is.
    """
    import tomlkit

    path = state_dir / FILE
    if not path.exists():
        return False
    with locked(path):
        load_endpoints(state_dir)
        document = tomlkit.parse(path.read_text("utf-8"))
        if name not in document:
            return False
        del document[name]
        write_atomic(path, tomlkit.dumps(document).encode())
        return True
