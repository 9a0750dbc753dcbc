"""Source shell scripts in a clean bash and see which variables they leave and which files they read."""

from __future__ import annotations

import os
import select
import tempfile
import time
from typing import Callable, Dict, List, NamedTuple, Tuple

from ..facts.procfs import parse_environment, read_small
from ..refusal import Refusal
from .child import Child, Spawn
from .drain import Family, Pace, drain

SOURCE_BOUND_S = 120.0
_POLL_MS = 50

# The script is fixed and everything else is an argument. The DEBUG trap notes each file that runs a command. A
# wrapper around "source" would turn the scripts' "declare" into local variables, and xtrace is lost where they
# switch it off. Scripts may return non-zero and use unset variables. Arguments come in pairs: a script and its one
# argument, which may be empty.
_SCRIPT = """
set +eu
exec 8>"$1" 9>"$2"
shift 2
set -T
_vaws_note() { _vaws_at=$1; printf "%s\\0" "$PWD" "$1" >&9; }
trap '[ "${BASH_SOURCE[0]}" = "$_vaws_at" ] || _vaws_note "${BASH_SOURCE[0]}"' DEBUG
_vaws_items=("$@")
for ((_vaws_at_item = 0; _vaws_at_item < ${#_vaws_items[@]}; _vaws_at_item += 2)); do
  set --
  source "${_vaws_items[_vaws_at_item]}" ${_vaws_items[_vaws_at_item + 1]:+"${_vaws_items[_vaws_at_item + 1]}"}
done
trap - DEBUG
if [ -x /usr/bin/env ]; then /usr/bin/env -0 >&8; else env -0 >&8; fi
"""


class Script(NamedTuple):
    """A script and the one argument that it is sourced with; empty means none."""

    path: str
    argument: str = ""


def source_files(
    base: Dict[str, str], scripts: List[Script], check: Callable[[], None]
) -> Tuple[Dict[str, str], List[str]]:
    """Source ``scripts`` in order on top of ``base``; return the resulting variables and all files that were read.

    ``check`` is called all the while and may raise to end it.
    Raises: Refusal ``env_failed`` when bash dies, takes too long, or leaves no environment.
    """
    clean = {name: value for name, value in base.items() if name not in ("BASH_ENV", "ENV", "BASHOPTS", "SHELLOPTS")}
    with tempfile.TemporaryDirectory(prefix="vaws-env-") as folder:
        variables, trace, log = (os.path.join(folder, name) for name in ("variables", "trace", "log"))
        full = [os.path.abspath(script.path) for script in scripts]
        pairs = [word for path, script in zip(full, scripts) for word in (path, script.argument)]
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", _SCRIPT, "bash", variables, trace, *pairs]
        code = run_bounded(argv, clean, log, check, SOURCE_BOUND_S)
        found = parse_environment(read_small(variables, 16 << 20) or b"")
        if not found:
            text = (read_small(log) or b"").decode("utf-8", "replace").strip()[-500:]
            message = "sourcing {} left no environment (bash ended with {}): {}".format(", ".join(full), code, text)
            raise Refusal("env_failed", message, hint="Run the file by hand on the endpoint.")
        return found, _traced(read_small(trace, 16 << 20) or b"", full)


def run_bounded(argv: List[str], env: Dict[str, str], log: str, check: Callable[[], None], bound_s: float) -> int:
    """Run a program with its output in the file ``log`` and return its exit code.

    Raises: Refusal ``env_failed`` when it cannot be started or takes too long; that of ``check``.
    """
    stdin_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        child = Child(Spawn(argv, os.path.expanduser("~"), env, [stdin_fd, log_fd, log_fd]))
    except OSError as error:
        raise Refusal("env_failed", f"{argv[0]} cannot be started: {error}") from None
    finally:
        os.close(stdin_fd)
        os.close(log_fd)
    try:
        _await(child, check, bound_s)
    except Refusal:
        drain(Family(child.identity, child.pid), Pace(0.5))
        raise
    else:
        return child.reap(1.0) or 0
    finally:
        child.reap(1.0)
        child.close()


def _await(child: Child, check: Callable[[], None], bound_s: float) -> None:
    limit = time.monotonic() + bound_s
    poller = select.poll()
    poller.register(child.exit_fd, select.POLLIN)
    while not poller.poll(_POLL_MS):
        check()
        if time.monotonic() >= limit:
            raise Refusal("env_failed", f"preparing the environment did not end within {bound_s:.0f} s")


def _traced(raw: bytes, paths: List[str]) -> List[str]:
    """Return the real paths of the files in the trace, in order; a relative name is tried from where it was used."""
    items = [os.fsdecode(item) for item in raw.split(b"\0")]
    names = list(paths)
    names.extend(os.path.join(folder, name) for folder, name in zip(items[0::2], items[1::2]) if name)
    found: List[str] = []
    for name in names:
        real = os.path.realpath(name)
        if real not in found and os.path.isfile(real):
            found.append(real)
    return found
