"""From settings to the argument vector of ``vllm serve``."""

from vaws_mcp.serving.settings import ServeSettings


def serve_argv(settings: ServeSettings, port: int) -> list[str]:
    """Return the command that starts the server on a port."""
    argv = ["vllm", "serve", settings.model, "--host", settings.host, "--port", str(port)]
    argv += ["--served-model-name", settings.served_model_name]
    if settings.tp is not None:
        argv += ["--tensor-parallel-size", str(settings.tp)]
    if settings.dp is not None:
        argv += ["--data-parallel-size", str(settings.dp)]
    return [*argv, *settings.serve_args]
