"""From the arguments of ``machine_add`` to an entry, and an entry as text."""

from typing import Any

from pydantic import ValidationError

from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.resolve import parse_destination
from vaws_mcp.npu.machines.models import MachineAddRequest


def entry_of(request: MachineAddRequest) -> EndpointConfig:
    """Return the entry that a request describes.

    Raises: Refused for a reserved name, a malformed host, one that contradicts port or user, or a wrong value.
    """
    if request.name == "local":
        raise Refused("machine_reserved", "`local` is this machine and always there", hint="Choose another name.")
    given = request.model_dump(exclude={"replace", "host"}, exclude_defaults=True)
    values = {**_place(request), **given}
    try:
        return EndpointConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Refused("machine_malformed", f"{where}: {first['msg']}", hint="Correct the value.") from None


def _place(request: MachineAddRequest) -> dict[str, Any]:
    if request.host is None:
        if request.port or request.user or request.jump:
            raise Refused("machine_malformed", "port, user and jump need a host", hint="Give host, or leave them out.")
        return {}
    place = parse_destination(request.host)
    for field in ("port", "user"):
        inside, beside = getattr(place, field), getattr(request, field)
        if inside is not None and beside is not None and inside != beside:
            message = f"host {request.host!r} says {field} {inside}, and {field} is {beside}"
            raise Refused("machine_malformed", message, hint=f"Give the {field} once.")
    return {name: value for name in ("host", "port", "user") if (value := getattr(place, name)) is not None}


def entry_text(config: EndpointConfig) -> str:
    """Return an entry as it stands in ``endpoints.toml``."""
    import tomlkit

    table = tomlkit.table()
    for key, value in config.model_dump(mode="json", exclude={"name"}, exclude_defaults=True).items():
        table.add(key, value)
    document = tomlkit.document()
    document[config.name] = table
    return tomlkit.dumps(document)


def check_replace(config: EndpointConfig, known: dict[str, EndpointConfig], *, replace: bool) -> None:
    """Let an entry pass that is new, says the same as before, or is to be replaced.

    Raises: Refused ``machine_exists``.
    """
    present = known.get(config.name)
    if present is None or present == config or replace:
        return
    raise machine_exists(present)


def machine_exists(present: EndpointConfig) -> Failure:
    """The name is taken by another entry."""
    return Refused(
        "machine_exists",
        f"there is a machine {present.address} already, with other settings",
        hint="Choose another name, or replace it with replace=true (--replace).",
        layer="local",
    )
