"""Request and result of ``remote_forward``."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest


class ForwardRequest(EndpointRequest):
    """Arguments of ``remote_forward``."""

    action: Literal["open", "list", "close"] = Field(default="open", description="open, list or close.")
    remote_port: int | None = Field(default=None, ge=1, le=65535, description="Port to reach (open).")
    remote_host: str = Field(
        default="127.0.0.1",
        pattern=r"^[A-Za-z0-9_.:%-]+$",
        max_length=255,
        description="Host of that port, as the endpoint sees it.",
    )
    local_port: int = Field(
        default=0, ge=0, le=65535, description="Port of this machine's loopback; 0 takes a free one."
    )
    local_socket: str | None = Field(
        default=None, min_length=1, description="Listen on this Unix socket (mode 0600) instead of a port."
    )
    forward_id: str | None = Field(default=None, min_length=1, description="Which one to close.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.action == "open" and self.remote_port is None:
            raise ValueError("remote_port is missing: which port of the endpoint is to be reached?")
        if self.action == "close" and self.forward_id is None:
            raise ValueError("forward_id is missing: action=list names the open ones")
        if self.local_port and self.local_socket:
            raise ValueError("give local_port or local_socket, not both")
        return self


class ForwardRow(BaseModel):
    """One forward and what went through it so far."""

    model_config = ConfigDict(extra="forbid")

    forward_id: str = Field(description="Name it to close it.")
    endpoint: str = Field(description="Name and address of the endpoint.")
    target: str = Field(description="host:port as the endpoint sees it.")
    local: str = Field(description="127.0.0.1:port, or the path of the socket.")
    url: str | None = Field(description="Address for a browser or curl; null for a socket.")
    open_connections: int = Field(description="Connections in use now.")
    connections: int = Field(description="Connections so far.")
    refused: int = Field(description="Connections that were closed because the endpoint could not reach the target.")
    broken: int = Field(description="Connections that were cut, such as by a lost SSH connection.")
    last_error: str | None = Field(description="Why the last one was refused or cut.")
    bytes_up: int = Field(description="Bytes sent to the target so far.")
    bytes_down: int = Field(description="Bytes received from it so far.")


class ForwardResult(Result):
    """The forward that was opened or closed, or all of this process."""

    forwards: list[ForwardRow] = Field(description="The forward concerned; for list: all open ones.")
