"""From settings to the argument vector of ``vllm bench serve``. Flags: `vllm bench serve --help`, 0.9 to 0.33."""

from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.serving.settings import flag_of, flag_value

READY_CHECK_S = "60"
DEFAULT_PROMPTS = 1000  # what the client sends when nobody says otherwise


def bench_argv(settings: BenchSettings, port: int, result_dir: str, result_name: str) -> list[str]:
    """Return the command that measures the service on a port and writes one result file.

    The backend is chat unless bench_args bring one. Temperature is always explicit, since the client's default changed
    between versions; the ready check is always on, since without it a benchmark of nothing exits 0.
    """
    serve, given = settings.serve, settings.bench_args
    argv = ["vllm", "bench", "serve", "--host", serve.host, "--port", str(port)]
    argv += ["--model", serve.model, "--served-model-name", serve.served_model_name]
    if not has_flag(given, "--backend", "--endpoint-type"):
        argv += ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
    if not has_flag(given, "--temperature"):
        argv += ["--temperature", "0"]
    if not has_flag(given, "--ready-check-timeout-sec"):
        argv += ["--ready-check-timeout-sec", READY_CHECK_S]
    if not has_flag(given, "--disable-tqdm"):
        argv.append("--disable-tqdm")
    argv += given
    return [*argv, "--save-result", "--result-dir", result_dir, "--result-filename", result_name]


def has_flag(words: tuple[str, ...], *flags: str) -> bool:
    """Tell whether one of the flags is given, as ``--flag value`` or ``--flag=value``, also with underscores."""
    return any(flag_of(word) in flags for word in words)


def expected_prompts(words: tuple[str, ...]) -> int | None:
    """Return how many requests the client is asked to send; None when the flag's value is no number."""
    value = flag_value(words, ("--num-prompts",))
    if value is None:
        return DEFAULT_PROMPTS
    return int(value) if value.isdecimal() else None
