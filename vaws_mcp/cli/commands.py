"""Parsing one command, carrying it out, and answering with the right exit code."""

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from vaws_mcp.cli.output import print_error, print_json
from vaws_mcp.core.envelope import EXIT_CANCELLED, EXIT_REFUSED

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
    """An argument parser whose errors look like all our errors and exit with 2."""

    def error(self, message: str) -> NoReturn:
        """Report wrong usage."""
        print_error(f"{self.prog.removeprefix('remote-dev ')}: {message}", f"See `{self.prog} --help`.")
        raise SystemExit(EXIT_REFUSED)


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
        print_error(
            f"there is no command {name!r}",
            f"Did you mean `remote-dev {near[0]}`?" if near else "`remote-dev --help` lists the commands.",
        )
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


__all__ = ["OWN_COMMANDS", "Parser", "print_help", "print_json", "run_command"]
