"""Parsing one command, carrying it out, and answering with the right exit code."""

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from vaws_mcp.cli.output import print_error, print_json
from vaws_mcp.core.envelope import EXIT_CANCELLED, EXIT_REFUSED

if TYPE_CHECKING:
    from vaws_mcp.core.failures import Failure

OWN_COMMANDS: dict[str, tuple[str, str]] = {
    "mcp": ("speak MCP over stdio", "vaws_mcp.cli.mcp"),
    "demo": ("show the main job on a simulated container", "vaws_mcp.cli.demo"),
    "sim-start": ("start the simulated container and register the endpoint `sim`", "vaws_mcp.cli.sim"),
    "sim-status": ("show the simulated container", "vaws_mcp.cli.sim"),
    "sim-stop": ("stop the simulated container", "vaws_mcp.cli.sim"),
}
HIDDEN_COMMANDS: dict[str, str] = {"run-exec": "vaws_mcp.cli.run_exec"}

HEADER = """usage: remote-dev COMMAND [OPTIONS]

Work on remote Ascend NPU containers: shell, files, vLLM services, benchmarks. Every command is also an MCP tool.
`remote-dev COMMAND --help` lists the options of a command.
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are answers like any other: one JSON object for a script, words for a person."""

    def __init__(self, *, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def parse(self, words: list[str]) -> argparse.Namespace:
        """Parse a command line. The word after an option is its value, also when it begins with dashes."""
        takes_value = {flag for flag, action in self._option_string_actions.items() if action.nargs is None}
        attached: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                attached += [word, *rest]
                break
            value = next(rest, None) if word in takes_value else None
            attached.append(word if value is None else f"{word}={value}")
        return self.parse_args(attached)

    def error(self, message: str) -> NoReturn:
        """Report wrong usage and end with exit code 2."""
        command = self.prog.removeprefix("remote-dev ")
        refuse(command, f"{command}: {message}", f"See `{self.prog} --help`.")
        raise SystemExit(EXIT_REFUSED)


def refuse(command: str, message: str, hint: str) -> None:
    """Answer a command line that cannot be understood; nothing was contacted."""
    from vaws_mcp.core.failures import Refused

    respond(command, Refused("usage", message, hint=hint))


def respond(command: str, failure: "Failure") -> int:
    """Answer with a failure, as one JSON object or, on a terminal, in words; return its exit code."""
    from vaws_mcp.catalog import BY_COMMAND
    from vaws_mcp.core.envelope import Stopwatch, exit_code, failed

    operation = BY_COMMAND.get(command)
    answer = failed(operation.name if operation else command.replace("-", "_"), failure, Stopwatch(), None)
    if sys.stdout.isatty():
        print_error(failure.message, failure.hint)
    else:
        print_json(answer)
    return exit_code(answer)


def run_command(words: Sequence[str]) -> int:
    """Carry out one command line and return the exit code."""
    name, rest = words[0] if words else "--help", list(words[1:])
    if name in ("--help", "-h", "help"):
        return print_help()
    module = HIDDEN_COMMANDS.get(name) or OWN_COMMANDS.get(name, ("", ""))[1]
    try:
        if module:
            return _own_command(module, name, rest)
        return _operation_command(name, rest)
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_REFUSED


def _own_command(module: str, name: str, words: list[str]) -> int:
    import importlib

    command: Callable[[str, list[str]], int] = importlib.import_module(module).run
    return command(name, words)


def _operation_command(name: str, words: list[str]) -> int:
    from vaws_mcp.catalog import BY_COMMAND
    from vaws_mcp.cli.operate import run_operation

    operation = BY_COMMAND.get(name)
    if operation is None:
        known = [*BY_COMMAND, *OWN_COMMANDS]
        near = difflib.get_close_matches(name.replace("_", "-").removeprefix("remote-"), known, n=1)
        hint = f"Did you mean `remote-dev {near[0]}`?" if near else "`remote-dev --help` lists the commands."
        refuse("remote_dev", f"there is no command {name!r}", hint)
        return EXIT_REFUSED
    return run_operation(operation, words)


def print_help() -> int:
    """List all commands with their titles."""
    from vaws_mcp.catalog import BY_COMMAND

    rows = {name: text for name, (text, _module) in OWN_COMMANDS.items()}
    rows |= {name: operation.title for name, operation in BY_COMMAND.items()}
    width = max(map(len, rows))
    lines = [f"  {name:<{width}}  {text}" for name, text in rows.items()]
    sys.stdout.write(HEADER + "\ncommands:\n" + "\n".join(lines) + "\n")
    return 0
