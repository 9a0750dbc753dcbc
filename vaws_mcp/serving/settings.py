"""What a service should be."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from vaws_mcp.core.failures import Refused

LOOPBACK = "127.0.0.1"
OWNED_FLAGS = {
    "--host": "host",
    "--port": "port",
    "--served-model-name": "served_model_name",
    "--tensor-parallel-size": "tp",
    "-tp": "tp",
    "--data-parallel-size": "dp",
    "-dp": "dp",
    "--model": "model",
}
# Further flags that multiply the devices of one service.
_FACTORS = (("--pipeline-parallel-size", "-pp"), ("--prefill-context-parallel-size", "-pcp"))
_LOCAL_ENGINES = ("--data-parallel-size-local", "-dpl")


@dataclass(frozen=True)
class ServeSettings:
    """A vLLM server. ``serve_args`` are passed on as they are; None for ``tp`` or ``dp`` leaves vLLM's own default."""

    model: str
    served_model_name: str
    port: int | None = None
    tp: int | None = None
    serve_args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    health_timeout_s: float = 1800.0
    host: str = LOOPBACK
    dp: int | None = None

    def check(self) -> None:
        """Refuse serve_args that contradict an argument of ours.

        Raises: Refused that names the flag and the argument to use instead.
        """
        for word in self.serve_args:
            flag = flag_of(word)
            if flag in OWNED_FLAGS:
                raise Refused(
                    "serve_args_conflict",
                    f"serve_args may not contain {word.split('=', 1)[0]}",
                    hint=f"Use the argument {OWNED_FLAGS[flag]} instead.",
                )

    def devices_needed(self) -> int:
        """Return how many devices the parallel sizes come to on one endpoint: tp x dp, and further factors.

        Raises: Refused for a size that is no number.
        """
        engines = self._size(_LOCAL_ENGINES)
        needed = (self.tp or 1) * ((self.dp or 1) if engines is None else engines)
        for names in _FACTORS:
            needed *= self._size(names) or 1
        return needed

    def _size(self, names: tuple[str, ...]) -> int | None:
        text = flag_value(self.serve_args, names)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < 1:
            raise Refused("serve_args_malformed", f"{names[0]} needs a number, not {text!r}", hint="Correct it.")
        return int(text)

    def api_key(self) -> str | None:
        """Return the key that the service asks its clients for, when it was started with one."""
        return flag_value(self.serve_args, ("--api-key",)) or self.env.get("VLLM_API_KEY") or None


def flag_of(word: str) -> str:
    """Return the name of a flag as vLLM reads it: without a value, with dashes instead of underscores."""
    name = word.split("=", 1)[0]
    return name.replace("_", "-") if name.startswith("--") else name


def flag_value(words: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """Return the value of a flag; the last one counts, as for vLLM."""
    found: str | None = None
    for index, word in enumerate(words):
        if flag_of(word) in names:
            following = words[index + 1] if index + 1 < len(words) else ""
            found = word.split("=", 1)[1] if "=" in word else following
    return found


def without_flags(words: tuple[str, ...], unwanted: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments without these flags and their values; a value is what follows and is no flag itself."""
    names = {flag_of(name if name.startswith("-") else f"--{name}") for name in unwanted}
    kept: list[str] = []
    dropping = False
    for word in words:
        is_flag = word.startswith("-") and not word[1:].replace(".", "", 1).isdecimal()
        if is_flag:
            dropping = flag_of(word) in names
        if not dropping:
            kept.append(word)
    return tuple(kept)


def default_served_name(model: str) -> str:
    """Return the name a model is served under unless told otherwise: the last part of its path."""
    return model.rstrip("/").rsplit("/", 1)[-1] or model
