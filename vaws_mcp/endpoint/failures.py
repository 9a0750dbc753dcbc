"""Failures of reaching an endpoint. Codes: see each function."""

from vaws_mcp.core.failures import Failure, Layer, NeedsInput, Refused


def no_endpoint() -> NeedsInput:
    """No endpoint was named and no task gives one."""
    return NeedsInput(
        "endpoint_missing",
        "no endpoint was given and no task names one",
        hint="Pass endpoint (a name in endpoints.toml, `local`, or user@host:port), or a task's context_file.",
    )


def unknown_endpoint(name: str, known: list[str], near: list[str]) -> Refused:
    """The name is neither in ``endpoints.toml`` nor a destination."""
    listed = ", ".join(known) or "none"
    suggestion = f" Did you mean {near[0]}?" if near else ""
    return Refused(
        "endpoint_unknown",
        f"there is no endpoint {name!r}; known: {listed}",
        hint=f"Add it to endpoints.toml, or give a destination as user@host:port.{suggestion}",
    )


def bad_endpoint_file(path: str, why: str) -> Refused:
    """``endpoints.toml`` cannot be used."""
    return Refused(
        "endpoints_file_invalid",
        f"cannot use {path}: {why}",
        layer="local",
        hint="Correct the file; it was left as it is.",
    )


def connect_failed(
    where: str, why: str, hint: str, *, code: str = "connect_failed", layer: Layer = "transport"
) -> Failure:
    """The SSH connection could not be made; nothing was started."""
    return Failure(code, f"cannot connect to {where}: {why}", layer=layer, hint=hint, retry_safe=True, phase="connect")


def no_python(where: str, name: str, found: str | None) -> Failure:
    """There is no Python 3.8 or newer for the worker; ``name`` is what was looked for, ``found`` its version."""
    have = f"its {name} is {found}" if found else f"it has no {name}"
    return Failure(
        "python_missing",
        f"the worker needs Python 3.8 or newer on {where}, and {have}",
        layer="remote_env",
        hint='Set `python = "/path/to/python3"` for this endpoint in endpoints.toml, or install Python 3.8+ there.',
        retry_safe=True,
        phase="worker",
    )


def worker_failed(where: str, why: str, banner: str = "", *, layer: Layer = "remote_env") -> Failure:
    """The worker did not start."""
    said = f"; the endpoint said: {banner}" if banner else ""
    return Failure(
        "worker_failed",
        f"the worker did not start on {where}: {why}{said}",
        layer=layer,
        hint="Run `remote-dev probe --endpoint ...` after checking that a shell command works there over plain ssh.",
        retry_safe=True,
        phase="worker",
    )


def connection_lost(where: str, method: str, why: str, *, retry_safe: bool) -> Failure:
    """The connection ended while a request was under way; whether it took effect is unknown."""
    known = "It is safe to repeat." if retry_safe else "Look at its effect before you repeat it."
    return Failure(
        "outcome_unknown",
        f"the connection to {where} was lost while {method} was under way: outcome unknown ({why})",
        layer="transport",
        hint=f"The next call connects anew. {known}",
        retry_safe=retry_safe,
    )


def transfer_cut(where: str, why: str) -> Failure:
    """A transfer of files ended before it was complete; what had arrived is kept apart."""
    return Failure(
        "transfer_cut",
        f"the transfer with {where} was cut: {why}; every file at the target is an old or a new one, never a part",
        layer="transport",
        hint="Call again with the same arguments: it goes on where it was cut.",
        retry_safe=True,
        phase="transfer",
    )


def container_unusable(container: str, where: str, why: str) -> Failure:
    """The container is missing, stopped or ambiguous; nothing falls back to the host."""
    return Failure(
        "container_unusable",
        f"cannot use container {container!r} on {where}: {why}",
        layer="remote_env",
        hint="Start the container, or correct its name. Nothing was run on the host instead.",
        retry_safe=True,
        phase="container",
    )
