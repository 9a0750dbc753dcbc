"""From a block of ``benchmarks``, which upstream runs with AISBench, to arguments of ``vllm bench serve``."""

import json
import re
from typing import Any

from vaws_mcp.bench.nightly_models import Baseline, Block, NotCarried

RANDOM_INPUT_LEN = 1024  # what the client takes by itself
_INPUT_LEN = re.compile(r"in(\d{1,6})(?!\d)", re.IGNORECASE)
_POSITIVE = re.compile(r"[1-9]\d{0,8}")
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}")
_NO_EQUIVALENT = {
    "dataset_path": "AISBench's data set has no equivalent; random prompts are sent instead",
    "dataset_path_local": "AISBench's data set has no equivalent; random prompts are sent instead",
    "dataset_conf": "AISBench's own way to read its data set",
    "baseline": "measured by AISBench; figures of another client are not comparable with it",
    "threshold": "belongs to the baseline",
    "no_pred": "AISBench's own",
    "model_path": "the model is given by the caller",
    "seed": "temperature 0 draws nothing",
    "top_k": "temperature 0 draws nothing",
    "top_p": "temperature 0 draws nothing",
    "min_p": "temperature 0 draws nothing",
    "do_sample": "temperature 0 draws nothing",
}
_BODY = ("repetition_penalty", "presence_penalty")


def read_block(key: str, entry: dict[str, Any], problems: list[str]) -> Block:
    """Return a block; what is wrong with a performance block is added to ``problems``."""
    case_type = _text(entry.get("case_type"))
    if case_type != "performance":
        why = f"case_type is {case_type}" if case_type else "it has no case_type"
        return Block(
            name=key, case_type=case_type, baseline=_baseline(entry), not_carried_over=[NotCarried(name=key, why=why)]
        )
    return _Reader(key, entry, problems).block()


def _text(value: Any) -> str | None:
    """Return a scalar as it is written; None for null, lists and mappings."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _baseline(entry: dict[str, Any]) -> Baseline | None:
    value = _text(entry.get("baseline"))
    return Baseline(value=value, threshold=_text(entry.get("threshold"))) if value is not None else None


class _Reader:
    """Reads one performance block; every key of it is either an argument, or is reported."""

    def __init__(self, key: str, entry: dict[str, Any], problems: list[str]) -> None:
        self.key, self.entry, self.problems = key, entry, problems
        self.args: list[str] = []
        self.body: dict[str, Any] = {}
        self.notes: list[str] = []
        self.left = [NotCarried(name=f"{key}.{name}", why=why) for name, why in _NO_EQUIVALENT.items() if name in entry]
        self.seen = {"case_type", *_NO_EQUIVALENT}

    def block(self) -> Block:
        """Return the block."""
        self._backend()
        derived = self._prompts()
        self._load()
        self._sampling()
        if self.body:
            self.args += ["--extra-body", json.dumps(self.body, separators=(",", ":"))]
            self.notes.append("--extra-body needs a client of vLLM 0.13 or later")
        unknown = [name for name in self.entry if name not in self.seen]
        self.left += [NotCarried(name=f"{self.key}.{name}", why="no equivalent is known") for name in unknown]
        return Block(
            name=self.key,
            case_type="performance",
            bench_args=self.args,
            derived=derived,
            baseline=_baseline(self.entry),
            not_carried_over=self.left,
            notes=self.notes,
        )

    def _take(self, name: str) -> str | None:
        """Return a scalar of the entry as text, and note that it was seen."""
        self.seen.add(name)
        value = self.entry.get(name)
        if value is not None and _text(value) is None:
            self.problems.append(f"benchmarks.{self.key}.{name} is no single value")
        return _text(value)

    def _number(self, name: str, pattern: re.Pattern[str], what: str) -> str | None:
        value = self._take(name)
        if value is None or pattern.fullmatch(value):
            return value
        self.problems.append(f"benchmarks.{self.key}.{name} is {value!r}, not {what}")
        return None

    def _flag(self, name: str) -> bool | None:
        value = self._take(name)
        if value is None:
            return None
        if value.lower() not in ("true", "false", "yes", "no", "on", "off"):
            self.problems.append(f"benchmarks.{self.key}.{name} is {value!r}, neither true nor false")
        return value.lower() in ("true", "yes", "on")

    def _backend(self) -> None:
        conf = self._take("request_conf")
        if conf is not None and "chat" not in conf:
            self.args += ["--backend", "openai", "--endpoint", "/v1/completions"]

    def _prompts(self) -> str:
        """Take lengths and count; return why the workload is another one than upstream's."""
        named = _text(self.entry.get("dataset_path")) or ""
        found = _INPUT_LEN.search(named.rsplit("/", 1)[-1])
        length = int(found[1]) if found else RANDOM_INPUT_LEN
        length = length or RANDOM_INPUT_LEN
        self.args += ["--dataset-name", "random", "--random-input-len", str(length)]
        output = self._number("max_out_len", _POSITIVE, "a number of tokens")
        if output:
            self.args += ["--random-output-len", output]
        prompts = self._number("num_prompts", _POSITIVE, "a number of prompts")
        if prompts:
            self.args += ["--num-prompts", prompts]
        else:
            self.notes.append(
                "num_prompts is absent: upstream sends its whole data set, our client its default of 1000"
            )
        origin = f"as the name of {named} says" if found else "the client's default, since the data set does not tell"
        return f"random prompts of {length} tokens ({origin}) instead of {named or 'a data set of AISBench'}"

    def _load(self) -> None:
        concurrency = self._number("batch_size", _POSITIVE, "a number of requests")
        if concurrency:
            self.args += ["--max-concurrency", concurrency]
        rate = self._number("request_rate", _NUMBER, "a number of requests per second")
        self.args += ["--request-rate", rate if rate and float(rate) > 0 else "inf"]

    def _sampling(self) -> None:
        """Performance runs upstream always have temperature 0 and ignore the end of text, whatever the entry says."""
        temperature = self._take("temperature")
        ignores = self._flag("ignore_eos")
        if temperature is not None and not re.fullmatch(r"0+(\.0*)?", temperature):
            self.notes.append(f"temperature {temperature} is not used: performance runs upstream use 0")
        if ignores is False:
            self.notes.append("ignore_eos false is not used: performance runs upstream ignore the end of text")
        self.args += ["--ignore-eos", "--temperature", "0"]
        if self._flag("trust_remote_code"):
            self.args.append("--trust-remote-code")
        thinking = self._flag("thinking")
        if thinking is not None:
            self.body["chat_template_kwargs"] = {"enable_thinking": thinking}
        for name in _BODY:
            value = self._number(name, _NUMBER, "a number")
            if value is not None:
                self.body[name] = float(value)
