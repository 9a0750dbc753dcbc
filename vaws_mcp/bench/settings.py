"""From a request to what is carried out."""

from dataclasses import dataclass, field
from typing import Any

from vaws_mcp.bench.models import BenchRequest
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.redact import redact
from vaws_mcp.serving.settings import ServeSettings, default_served_name

DEFAULT_BENCH_ARGS = (
    *("--dataset-name", "random", "--random-input-len", "256", "--random-output-len", "64"),
    *("--num-prompts", "32", "--max-concurrency", "8", "--ignore-eos"),
)
OWNED_FLAGS = {
    "--host": "the service's own address",
    "--port": "port",
    "--base-url": "the service's own address",
    "--model": "model",
    "--served-model-name": "served_model_name",
    "--save-result": "always on",
    "--result-dir": "the run's directory",
    "--result-filename": "the run's directory",
    "--append-result": "one file an iteration",
}


@dataclass(frozen=True)
class BenchSettings:
    """A service to start and the client to measure it with."""

    serve: ServeSettings
    bench_args: tuple[str, ...]
    bench_env: dict[str, str] = field(default_factory=dict[str, str])
    runs: int = 1
    warmup_runs: int = 0
    timeout_s: float = 3600.0

    @classmethod
    def of(cls, request: BenchRequest) -> "BenchSettings":
        """Return the settings of a request.

        Raises: Refused for arguments that contradict each other; nothing was contacted.
        """
        serve = ServeSettings(
            model=request.model,
            served_model_name=request.served_model_name or default_served_name(request.model),
            port=request.port,
            tp=request.tp,
            serve_args=request.serve_args,
            env=request.extra_env,
            health_timeout_s=request.health_timeout,
        )
        serve.check()
        _check_bench_args(request.bench_args)
        return cls(
            serve=serve,
            bench_args=request.bench_args or DEFAULT_BENCH_ARGS,
            bench_env=request.bench_env,
            runs=request.runs,
            warmup_runs=request.warmup_runs,
            timeout_s=request.bench_timeout,
        )

    def as_config(self) -> dict[str, Any]:
        """Return the settings for the result, secrets masked."""
        serve = self.serve
        return redact(
            {
                "model": serve.model,
                "served_model_name": serve.served_model_name,
                "tp": serve.tp,
                "port": serve.port,
                "serve_args": list(serve.serve_args),
                "bench_args": list(self.bench_args),
                "env": serve.env,
                "bench_env": self.bench_env,
                "runs": self.runs,
                "warmup_runs": self.warmup_runs,
            }
        )


def _check_bench_args(words: tuple[str, ...]) -> None:
    for word in words:
        flag = word.split("=", 1)[0]
        if flag in OWNED_FLAGS:
            raise Refused(
                "bench_args_conflict",
                f"bench_args may not contain {flag}",
                hint=f"It is set by us: {OWNED_FLAGS[flag]}.",
            )
