"""From what a request says to one endpoint."""

import difflib
import re
from pathlib import Path

from vaws_mcp.core.failures import Refused
from vaws_mcp.endpoint.failures import no_endpoint, unknown_endpoint
from vaws_mcp.endpoint.models import EndpointConfig, EndpointRequest
from vaws_mcp.endpoint.registry import load_endpoints

LIMITS = ("read_only", "root", "deny_paths", "deny_commands")
_DESTINATION = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@\s/\x00-\x1f]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_.-]+))(?::(?P<port>\d{1,5}))?/?"
)


def resolve(state_dir: Path, request: EndpointRequest, task_endpoint: str | None = None) -> EndpointConfig:
    """Return the endpoint of a request: what it names, else the task's endpoint.

    Fields given beside the name (container, identity_file, jump, accept_new) take the place of the stored ones.

    Raises: NeedsInput without any endpoint. Refused for an unknown name or a malformed destination.
    """
    name = request.endpoint or task_endpoint
    if not name:
        raise no_endpoint()
    config = lookup(state_dir, name)
    changes = {
        key: value
        for key in ("container", "identity_file", "jump", "accept_new")
        if (value := getattr(request, key)) not in (None, False)
    }
    return config.model_copy(update=changes)


def lookup(state_dir: Path, name: str) -> EndpointConfig:
    """Return a named endpoint, or the one a destination describes.

    Raises: Refused.
    """
    known = load_endpoints(state_dir)
    if name in known:
        return known[name]
    looks_like_one = "@" in name or ":" in name or "." in name or _ssh_alias(name)
    if not looks_like_one or not _DESTINATION.fullmatch(name):
        raise unknown_endpoint(name, sorted(known), difflib.get_close_matches(name, list(known), n=1))
    return _limited(parse_destination(name), list(known.values()))


def _limited(config: EndpointConfig, known: list[EndpointConfig]) -> EndpointConfig:
    """Give a destination the limits of the named endpoint on the same host and port: a spelling must not lift them.

    With several such names the first one that has limits counts.
    """
    place = _place(config)
    for one in known:
        limits = {name: getattr(one, name) for name in LIMITS}
        if _place(one) == place and any(limits.values()):
            return config.model_copy(update=limits)
    return config


def _place(config: EndpointConfig) -> tuple[str, int]:
    return (config.host or "").lower(), config.port or 22


def parse_destination(text: str) -> EndpointConfig:
    """Return the endpoint that ``[user@]host[:port]`` describes; an IPv6 address with a port stands in brackets.

    Raises: Refused ``endpoint_malformed``.
    """
    match = _DESTINATION.fullmatch(text)
    if not match:
        raise Refused("endpoint_malformed", f"{text!r} is no destination", hint="Give [user@]host[:port].")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 1 <= port <= 65535:
        raise Refused("endpoint_malformed", f"{text!r} has an impossible port", hint="Give user@host:port.")
    return EndpointConfig(name=text, host=match["six"] or match["host"], port=port, user=match["user"])


def _ssh_alias(name: str) -> bool:
    """Tell whether ``~/.ssh/config`` has a ``Host`` line with exactly this name."""
    try:
        lines = (Path.home() / ".ssh" / "config").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return False
    words = (line.strip().replace("=", " ").split() for line in lines)
    return any(len(parts) > 1 and parts[0].lower() == "host" and name in parts[1:] for parts in words)
