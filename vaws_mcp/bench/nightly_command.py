"""The command list of a nightly case: variables, flags, and the settings of ours that it contains."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vaws_mcp.serving.settings import flag_of

PORTS = ("SERVER_PORT", "ENCODE_PORT", "PD_PORT", "PROXY_PORT")
DEFAULT_PORT = "DEFAULT_PORT"
"""What upstream writes for a port that is chosen at the launch."""

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_TP, _DP = ("--tensor-parallel-size", "-tp"), ("--data-parallel-size", "-dp")
_OWNED = {"--host", "--port", "--served-model-name", "--model", *_TP, *_DP}


@dataclass
class Command:
    """What a command list comes to."""

    tp: int | None = None
    dp: int | None = None
    port: int | None = None
    served_model_name: str | None = None
    words: list[str] = field(default_factory=list[str])
    unresolved: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])


@dataclass
class _Option:
    flag: str
    words: list[str]

    @property
    def value(self) -> str:
        """Its first value, attached or following; empty when there is none."""
        if "=" in self.words[0]:
            return self.words[0].split("=", 1)[1]
        return self.words[1] if len(self.words) > 1 else ""


def read_command(words: Sequence[str], env: Mapping[str, str]) -> Command:
    """Return the settings and arguments of a command list. Nothing is ever given to a shell.

    Names are looked up in the case's own environment only; unknown ones stay as they are, and are reported. Of a flag
    that stands twice the last one counts, as for vLLM.
    """
    command = Command()
    ports = {name for name in PORTS if env.get(name, DEFAULT_PORT) == DEFAULT_PORT}
    known = {name: value for name, value in env.items() if name not in ports}
    options = _options(_expanded(words, known, command), command)
    for option in _last_of_each(options, command):
        if option.flag in _OWNED:
            _take(option, command, ports)
        else:
            command.words += option.words
            _look_at_json(option, command)
    kept = " ".join([*command.words, command.served_model_name or ""])
    command.unresolved = sorted(
        {name for name in _names(kept) if name not in known and (name in ports or name in command.unresolved)}
    )
    if command.unresolved:
        command.notes.append(f"kept literally, since no value is known: {', '.join(command.unresolved)}")
    return command


def _names(text: str) -> list[str]:
    return [braced or bare for braced, bare in _VARIABLE.findall(text)]


def _expanded(words: Sequence[str], known: Mapping[str, str], command: Command) -> list[str]:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in known:
            command.unresolved.append(name)
            return match[0]
        return known[name]

    return [_VARIABLE.sub(value, word) for word in words]


def _options(words: Sequence[str], command: Command) -> list[_Option]:
    """Return the flags, spelled with dashes, each with its values."""
    found: list[_Option] = []
    for word in words:
        if word.startswith("-") and not word[1:].replace(".", "", 1).isdecimal():
            name, separator, value = word.partition("=")
            flag = flag_of(name)
            found.append(_Option(flag, [f"{flag}{separator}{value}"]))
        elif found:
            found[-1].words.append(word)
        else:
            command.problems.append(f"server_cmd begins with {word!r}, which is no flag")
    return found


def _last_of_each(options: list[_Option], command: Command) -> list[_Option]:
    last = {_one_name(option.flag): index for index, option in enumerate(options)}
    kept = [option for index, option in enumerate(options) if last[_one_name(option.flag)] == index]
    doubled = dict.fromkeys(
        option.flag for index, option in enumerate(options) if last[_one_name(option.flag)] != index
    )
    if doubled:
        command.notes.append(f"given more than once, the last one counts: {', '.join(doubled)}")
    return kept


def _one_name(flag: str) -> str:
    return _TP[0] if flag in _TP else _DP[0] if flag in _DP else flag


def _take(option: _Option, command: Command, ports: set[str]) -> None:
    """Turn a flag that a setting of ours stands for into that setting."""
    flag, value = _one_name(option.flag), option.value
    if flag == "--port":
        if set(_names(value)) & ports:
            return  # a free one is chosen
        command.port = _number("--port", value, 65535, command)
    elif flag == _TP[0]:
        command.tp = _number(flag, value, 1024, command)
    elif flag == _DP[0]:
        command.dp = _number(flag, value, 1024, command)
    elif flag == "--served-model-name":
        command.served_model_name = value or None
        if not value or value.startswith("-"):
            command.problems.append("--served-model-name has no value")
        if len(option.words) > 2:
            command.notes.append(f"of several served names the first is used: {value}")
    else:
        command.notes.append(f"{flag} is not taken over: the model and the address are given by the caller")


def _number(flag: str, value: str, largest: int, command: Command) -> int | None:
    if value.isascii() and value.isdecimal() and len(value) <= 6 and 1 <= int(value) <= largest:
        return int(value)
    command.problems.append(f"{flag} needs a number up to {largest}, not {value!r}")
    return None


def _look_at_json(option: _Option, command: Command) -> None:
    value = option.value.lstrip()
    if not value.startswith("{"):
        return
    try:
        json.loads(value)
    except (ValueError, RecursionError) as error:
        command.notes.append(f"the value of {option.flag} is not JSON ({error})")
