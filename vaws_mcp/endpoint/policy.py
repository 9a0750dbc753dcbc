"""What may be done on an endpoint: read only, commands and paths that are denied, and the root of file operations.

A denied command is a guard against mistakes and not a sandbox: a shell has many ways to say the same. ``root`` and
``deny_paths`` hold for the file operations; who may run commands can reach what their user can reach.
"""

import os
import re
from typing import Any

from vaws_mcp.core.context import Effect
from vaws_mcp.core.failures import Blocked
from vaws_mcp.endpoint.models import EndpointConfig

READ_ONLY_VARIABLE = "VAWS_READ_ONLY"
_OFF = ("", "0", "false", "no", "off")


def read_only_everywhere() -> bool:
    """Tell whether ``VAWS_READ_ONLY`` says that no endpoint may be changed."""
    return os.environ.get(READ_ONLY_VARIABLE, "").strip().lower() not in _OFF


def check_effect(config: EndpointConfig, effect: Effect) -> None:
    """Let a call pass that only reads, or whose endpoint may be changed.

    Raises: Blocked ``read_only``; nothing has been contacted then.
    """
    if effect == "read":
        return
    everywhere = read_only_everywhere()
    if not everywhere and not config.read_only:
        return
    why = f"{READ_ONLY_VARIABLE} is set" if everywhere else "its entry in endpoints.toml says read_only"
    raise Blocked(
        "read_only",
        f"{config.address} may only be read from: {why}",
        layer="local",
        hint="Use operations that only read, or ask the person who set this to allow changes.",
    )


def check_command(config: EndpointConfig, text: str) -> None:
    """Let a command line pass that no pattern of ``deny_commands`` is found in.

    Raises: Blocked ``command_denied`` that names the pattern; nothing has been contacted then.
    """
    for pattern in config.deny_commands:
        if re.search(pattern, text):
            raise Blocked(
                "command_denied",
                f"deny_commands of {config.name} forbids this command: it matches {pattern!r}",
                layer="local",
                hint="Do it another way, or ask the person who set the pattern.",
            )


def policy_params(config: EndpointConfig) -> dict[str, Any]:
    """Return the parameters that confine a file operation on the endpoint; empty when nothing is confined."""
    if config.root is None and not config.deny_paths:
        return {}
    return {"policy": {"root": config.root, "deny_paths": list(config.deny_paths)}}
