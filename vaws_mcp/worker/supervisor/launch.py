"""Starting the command: its environment, its logs, and the receipt that says what was started with what."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Callable, Dict, List, NamedTuple

from ..engine import environment
from ..engine.atomic import replace_file
from ..engine.child import Child, Spawn
from ..refusal import Refusal
from . import status as records
from .grant import Grant
from .spec import MARKER, Spec, digest_of_environment

_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_MASK = "***"
_SECRET = re.compile(r"(?i)(^|[-_])(token|key|secret|password|passwd|credentials?)\Z")


class Start(NamedTuple):
    """A command that is ready to be started."""

    cwd: str
    env: Dict[str, str]
    env_source: str


def prepared(spec: Spec, grant: Grant, check: Callable[[], None]) -> Start:
    """Return environment and directory of the command. Raises: Refusal."""
    env, source = environment.prepare(spec.env_spec, check)
    env.pop(_VISIBLE, None)  # also what the container or an env file says is no grant
    for name, value in spec.env.items():
        if value is None:
            env.pop(name, None)
        elif name != _VISIBLE:  # a caller's value was the request; only the grant sets it
            env[name] = value
    env[MARKER] = spec.execution_id
    env["SPT_NOENV"] = "1"  # keeps a process that changes its title from overwriting the marker
    env.update(grant.environment())
    cwd = environment.home() if spec.cwd is None else os.path.expanduser(spec.cwd)
    if not os.path.isdir(cwd):
        raise Refusal("not_found", f"{cwd}: the working directory does not exist")
    return Start(cwd, env, source)


def start(folder: str, argv: List[str], ready: Start) -> Child:
    """Start the command with its output in the folder's logs. Raises: OSError."""
    stdio: List[int] = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
    try:
        for name in ("stdout.log", "stderr.log"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            stdio.append(os.open(os.path.join(folder, name), flags, 0o600))
        return Child(Spawn(argv, ready.cwd, ready.env, stdio))
    finally:
        for fd in stdio:
            os.close(fd)


def masked(argv: List[str]) -> List[str]:
    """Return a command without the values of its secret flags and assignments: ``--api-key abc``, ``TOKEN=abc``."""
    shown: List[str] = []
    hide = False
    for word in argv:
        name, equals, _value = word.partition("=")
        secret = _SECRET.search(name) is not None
        if hide and not word.startswith("-"):
            shown.append(_MASK)
        else:
            shown.append(f"{name}={_MASK}" if equals and secret else word)
        hide = secret and not equals and word.startswith("-")
    return shown


def write_receipt(folder: str, spec: Spec, ready: Start, status: records.Status) -> None:
    """Write down what is started with what; values of the caller's variables may be secret and are not kept."""
    receipt: Dict[str, Any] = {
        "schema": status["schema"],
        "execution_id": spec.execution_id,
        "argv": masked(spec.argv),
        "cwd": ready.cwd,
        "user_env": digest_of_environment(spec.env),
        "env_source": ready.env_source,
        "trees": [tree._asdict() for tree in spec.needs.trees],
        "python": sys.version.split()[0],
        "started_at": records.now(),
        "launch": spec.facts,
    }
    kept = ("devices", "ports", "reservation", "lease_scope", "lease_scope_why", "probe")
    for name in (*kept, "assumed_free", "health_skipped", "boot_id"):
        receipt[name] = status[name]
    replace_file(os.path.join(folder, "receipt.json"), json.dumps(receipt).encode("ascii"))
