"""What a service should be."""

from dataclasses import dataclass, field

from vaws_mcp.core.failures import Refused

LOOPBACK = "127.0.0.1"
OWNED_FLAGS = {
    "--host": "host",
    "--port": "port",
    "--served-model-name": "served_model_name",
    "--tensor-parallel-size": "tp",
    "-tp": "tp",
    "--model": "model",
}


@dataclass(frozen=True)
class ServeSettings:
    """A vLLM server. ``serve_args`` are passed on as they are; ``tp`` None leaves vLLM's own default."""

    model: str
    served_model_name: str
    port: int | None = None
    tp: int | None = None
    serve_args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    health_timeout_s: float = 1800.0
    host: str = LOOPBACK

    def check(self) -> None:
        """Refuse serve_args that contradict an argument of ours.

        Raises: Refused that names the flag and the argument to use instead.
        """
        for word in self.serve_args:
            flag = word.split("=", 1)[0]
            if flag in OWNED_FLAGS:
                raise Refused(
                    "serve_args_conflict",
                    f"serve_args may not contain {flag}",
                    hint=f"Use the argument {OWNED_FLAGS[flag]} instead.",
                )


def default_served_name(model: str) -> str:
    """Return the name a model is served under unless told otherwise: the last part of its path."""
    return model.rstrip("/").rsplit("/", 1)[-1] or model
