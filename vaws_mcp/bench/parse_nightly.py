"""A nightly YAML of vllm-ascend as cases. Nothing in it is trusted: it is data, and is never evaluated."""

import re
from typing import Any

from vaws_mcp.bench.nightly_command import DEFAULT_PORT, PORTS, read_command
from vaws_mcp.bench.nightly_failures import nightly_malformed, nightly_multi_node
from vaws_mcp.bench.nightly_models import Block, Case, File, NotCarried
from vaws_mcp.bench.nightly_workload import read_block
from vaws_mcp.bench.parse_nightly_yaml import UnreadableError, read_yaml

MAX_CASES = 500
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEVERAL_MACHINES = ("deployment", "templates", "routing", "num_nodes", "npu_per_node", "disaggregated_prefill")
_NO_EQUIVALENT = {
    "test_content": "upstream's functional checks",
    "prompts": "upstream's functional checks",
    "api_keyword_args": "upstream's functional checks",
    "expected_response": "upstream's functional checks",
    "mm_request": "upstream's functional checks",
    "benchmark_comparisons_args": "compares figures of AISBench",
    "special_dependencies": "packages are not installed; see runtime_prepare",
    "kv_pool": "no store for KV caches is started",
}
_RUNNER_VARIABLE, _RUNNERS = "VLLM_USE_V2_MODEL_RUNNER", {"v1": "0", "v2": "1"}
_READ = {"runner_configs", "name", "model", "envs", "server_cmd", "server_cmd_extra", "benchmarks", "service_mode"}
_EPD = ("epd_server_cmds", "epd_proxy_args")


def parse_nightly(raw: bytes, name: str) -> File:
    """Return the cases of a file, also those that cannot be used, with the reason.

    Raises: Refused ``nightly_malformed`` or ``nightly_multi_node`` when the file as a whole cannot be used.
    """
    try:
        value, doubles = read_yaml(raw)
    except UnreadableError as error:
        raise nightly_malformed(name, str(error)) from None
    if not isinstance(value, dict):
        raise nightly_malformed(name, f"it is {_kind(value)}, not a mapping")
    if "test_cases" not in value:
        several = [key for key in _SEVERAL_MACHINES if key in value]
        if several:
            raise nightly_multi_node(name, f"it has {', '.join(several)} and no test_cases")
        raise nightly_malformed(name, "it has no test_cases")
    entries = value["test_cases"]
    if not isinstance(entries, list) or not entries:
        what = "empty" if entries == [] else _kind(entries)
        raise nightly_malformed(name, f"test_cases is {what}, not a list of cases")
    if len(entries) > MAX_CASES:
        raise nightly_malformed(name, f"it has more than {MAX_CASES} cases")
    cases = [_case(number, variant) for number, entry in enumerate(entries, 1) for variant in _variants(entry)]
    notes = [f"the key {key!r} stands in a mapping twice; the last one counts" for key in doubles]
    return File(cases=_told_apart(cases), notes=notes)


def _kind(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "text", type(None): "null"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def _told_apart(cases: list[Case]) -> list[Case]:
    """A name that several cases have names none of them."""
    names = [case.name for case in cases]
    return [
        case.model_copy(update={"problems": [*case.problems, "another case has the same name"]})
        if names.count(case.name) > 1
        else case
        for case in cases
    ]


def _variants(entry: Any) -> list[Any]:
    """Return a case once for each model runner that it has settings for, else as it is.

    Upstream takes those of the runner that VLLM_USE_V2_MODEL_RUNNER chooses, so each variant sets the variable.
    """
    configs = entry.get("runner_configs") if isinstance(entry, dict) else None
    if not isinstance(configs, dict) or not configs:
        return [entry]
    envs, extra = entry.get("envs") or {}, entry.get("server_cmd_extra") or []
    variants: list[Any] = []
    for runner, config in configs.items():
        more = config if isinstance(config, dict) else {}
        own, words = more.get("envs") or {}, more.get("server_cmd_extra") or []
        right = all(isinstance(part, dict) for part in (config, envs, own)) and isinstance(words, list)
        if runner not in _RUNNERS or not right or not isinstance(extra, list):
            return [entry]
        variant = {key: value for key, value in entry.items() if key != "runner_configs"}
        variant["name"] = f"{entry.get('name')}@{runner}"
        variant["envs"] = {_RUNNER_VARIABLE: _RUNNERS[runner], **envs, **own}
        variant["server_cmd_extra"] = [*extra, *words]
        variants.append(variant)
    return variants


def _case(number: int, entry: Any) -> Case:
    name = f"case-{number}"
    if not isinstance(entry, dict):
        return Case(name=name, model=None, problems=[f"the case is {_kind(entry)}, not a mapping"])
    if isinstance(entry.get("name"), str) and entry["name"].strip():
        name = entry["name"].strip()
    problems: list[str] = []
    if entry.get("runner_configs") is not None:
        problems.append("runner_configs does not have, for v1 and v2, envs and server_cmd_extra")
    model = entry.get("model")
    if model is not None and not isinstance(model, str):
        problems.append(f"model is {_kind(model)}, not text")
    env = _environment(entry.get("envs"), problems)
    words = [word for key in ("server_cmd", "server_cmd_extra") for word in _words(key, entry.get(key), problems)]
    command = read_command(words, env)
    blocks = _blocks(entry.get("benchmarks"), problems)
    return Case(
        name=name,
        model=model if isinstance(model, str) else None,
        tp=command.tp,
        dp=command.dp,
        port=command.port or _own_port(env, problems),
        served_model_name=command.served_model_name,
        serve_args=command.words,
        env={key: value for key, value in env.items() if key not in PORTS},
        blocks=blocks,
        unresolved=command.unresolved,
        notes=[*_notes(env, blocks), *command.notes],
        not_carried_over=_left_out(entry),
        unsupported=_unsupported(entry),
        problems=[*problems, *command.problems],
    )


def _unsupported(entry: dict[Any, Any]) -> str | None:
    mode = entry.get("service_mode")
    if mode not in (None, "openai"):
        what = "starts several servers" if mode in ("epd", "multi_instance") else "is not known here"
        return f"service_mode {mode} {what}"
    found = [key for key in _EPD if entry.get(key)]
    return f"{', '.join(found)} start several servers" if found else None


def _left_out(entry: dict[Any, Any]) -> list[NotCarried]:
    """Return the keys of a case that nothing here is made from."""
    left: list[NotCarried] = []
    for key in map(str, entry):
        if key in _NO_EQUIVALENT:
            left.append(NotCarried(name=key, why=_NO_EQUIVALENT[key]))
        elif key in _EPD or key not in _READ:
            left.append(NotCarried(name=key, why="no equivalent is known"))
    return left


def _environment(value: Any, problems: list[str]) -> dict[str, str]:
    """Return the variables of a case, as they are written: upstream expands nothing in them."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        problems.append(f"envs is {_kind(value)}, not a mapping")
        return {}
    env: dict[str, str] = {}
    for key, item in value.items():
        if not isinstance(key, str) or not _ENV_NAME.fullmatch(key):
            problems.append(f"envs: {key!r} is no name of a variable")
        elif not isinstance(item, str | int | float):
            problems.append(f"envs.{key} is {_kind(item)}, not a single value")
        elif "\0" in str(item):
            problems.append(f"envs.{key} contains a NUL")
        else:
            env[key] = str(item)
    return env


def _own_port(env: dict[str, str], problems: list[str]) -> int | None:
    text = env.get("SERVER_PORT", DEFAULT_PORT)
    if text == DEFAULT_PORT:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535:
        return int(text)
    problems.append(f"envs.SERVER_PORT is {text!r}, neither a port nor {DEFAULT_PORT}")
    return None


def _words(key: str, value: Any, problems: list[str]) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(f"{key} is {_kind(value)}, not a list")
        return []
    words: list[str] = []
    for number, item in enumerate(value, 1):
        if not isinstance(item, str | int | float) or "\0" in str(item):
            problems.append(f"{key}: item {number} is {_kind(item)}, not one word")
        else:
            words.append(str(item))
    return words


def _blocks(value: Any, problems: list[str]) -> list[Block]:
    """Return all benchmarks of a case. What each is, its ``case_type`` says; its key says nothing."""
    if value is None:
        return []
    if not isinstance(value, dict):
        problems.append(f"benchmarks is {_kind(value)}, not a mapping")
        return []
    blocks: list[Block] = []
    for key, entry in value.items():
        if isinstance(entry, dict):
            blocks.append(read_block(str(key), {str(name): item for name, item in entry.items()}, problems))
        elif entry is not None:
            problems.append(f"benchmarks.{key} is {_kind(entry)}, not a mapping")
    return blocks


def _notes(env: dict[str, str], blocks: list[Block]) -> list[str]:
    notes: list[str] = []
    literal = [key for key, value in env.items() if "$" in value]
    if literal:
        notes.append(f"the values of {', '.join(literal)} contain $, which is kept literally, as upstream does")
    if not any(block.measures for block in blocks):
        notes.append("it has no performance benchmark, so nothing is said about bench_args")
    return notes
