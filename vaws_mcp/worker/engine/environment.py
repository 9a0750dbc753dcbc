"""The environment of commands: the container's own, then the env files, then the virtual environment.

Sourcing vendor scripts takes from 0.1 s to many seconds, so what they do is kept, in memory and in
``~/.vaws/env-cache/``, for as long as no file that was sourced changes. Entries hold only the difference to the base.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, cast

from ..facts import procfs
from ..params import Params
from ..refusal import Refusal
from .atomic import replace_file
from .sourcing import source_files

_SSH_NAMES = ("SSH_CLIENT", "SSH2_CLIENT", "SSH_CONNECTION", "SSH_TTY")
_INIT_NAMES = ("systemd", "init")
_VOLATILE = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "XDG_SESSION_ID", "XDG_RUNTIME_DIR", "VAWS_REQUEST_ID"))


class Delta(NamedTuple):
    """What sourcing changed, and the digest of each file that took part in it."""

    set: Dict[str, str]
    unset: List[str]
    files: Dict[str, str]


class _Entry(NamedTuple):
    delta: Delta
    stamps: Dict[str, Tuple[int, int, int]]


_lock = threading.Lock()
_bases: Dict[bool, Dict[str, str]] = {}
_entries: Dict[str, _Entry] = {}


def home() -> str:
    """Return the home directory of the user that the worker runs as."""
    return os.path.expanduser("~")


def base_environment(use_container_env: bool = True) -> Dict[str, str]:
    """Return a copy of what every command starts from.

    The variables of the SSH session are left out: with them a plain ``bash -c`` takes itself for a login by network
    and reads ``.bashrc``. Variables that the container was started with, and that an SSH session lacks, are added.
    """
    with _lock:
        base = _bases.get(use_container_env)
        if base is None:
            base = _container_environment() if use_container_env else {}
            base.update(os.environ)
            for name in (*_SSH_NAMES, "VAWS_REQUEST_ID"):
                base.pop(name, None)
            _forget_own_path(base)
            _bases[use_container_env] = base
    return dict(base)


def package_root() -> str:
    """Return the directory that holds the worker's package."""
    root = os.path.abspath(__file__)
    for _ in range((__package__ or "").count(".") + 2):
        root = os.path.dirname(root)
    return root


def _forget_own_path(env: Dict[str, str]) -> None:
    """Take our own package out of PYTHONPATH, should the worker have been started by it."""
    paths = [path for path in env.pop("PYTHONPATH", "").split(os.pathsep) if path and path != package_root()]
    if paths:
        env["PYTHONPATH"] = os.pathsep.join(paths)


def _container_environment() -> Dict[str, str]:
    first = procfs.read_process(1)
    if os.environ.get("VAWS_SIM") or first is None or first.comm in _INIT_NAMES:
        return {}
    raw = procfs.read_small("/proc/1/environ") or b""
    return procfs.parse_environment(raw)


def prepare(values: Mapping[str, Any], check: Callable[[], None]) -> Tuple[Dict[str, str], str]:
    """Return the environment that ``env_spec`` describes, and ``direct``, ``cached`` or ``sourced``.

    ``check`` is called while scripts run and may raise to end that.
    Raises: Refusal ``env_file_missing``, ``env_failed``, ``venv_missing``.
    """
    spec = Params(values, "env_spec.")
    env = base_environment(spec.flag("use_container_env", True))
    source = "direct"
    env_files = [os.path.expanduser(path) for path in spec.texts("env_files")]
    if env_files:
        delta, source = _sourced(env, env_files, spec.flag("refresh"), check)
        for name in delta.unset:
            env.pop(name, None)
        env.update(delta.set)
    venv = spec.optional_text("venv")
    if venv is not None:
        _activate(env, os.path.expanduser(venv))
    return env, source


def _activate(env: Dict[str, str], venv: str) -> None:
    folder = os.path.join(venv, "bin")
    if not os.path.isdir(folder):
        raise Refusal("venv_missing", f"{venv} is not a virtual environment: it has no bin directory")
    env["VIRTUAL_ENV"] = venv
    env["PATH"] = folder + os.pathsep + env.get("PATH", os.defpath)
    env.pop("PYTHONHOME", None)


def _sourced(base: Dict[str, str], env_files: List[str], refresh: bool, check: Callable[[], None]) -> Tuple[Delta, str]:
    for path in env_files:
        if not os.path.isfile(path):
            hint = "Correct env_files of the endpoint, or create the file."
            raise Refusal("env_file_missing", f"{path}: the environment file does not exist", hint=hint)
    key = _key(base, env_files)
    if not refresh:
        delta = _from_memory(key) or _from_disk(key)
        if delta is not None:
            return delta, "cached"
    before = dict(base)
    after, sourced = source_files(before, env_files, check)
    delta = _difference(before, after, sourced)
    _remember(key, delta)
    with contextlib.suppress(OSError):  # a full disk must not keep a command from running
        replace_file(_cache_path(key), json.dumps(delta._asdict()).encode("ascii"), make_parents=True)
    return delta, "sourced"


def _key(base: Dict[str, str], env_files: List[str]) -> str:
    stable = sorted((name, value) for name, value in base.items() if name not in _VOLATILE)
    text = json.dumps([os.getuid(), env_files, stable])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _cache_path(key: str) -> str:
    return os.path.join(home(), ".vaws", "env-cache", key + ".json")


def _difference(before: Dict[str, str], after: Dict[str, str], sourced: List[str]) -> Delta:
    changed = {name: value for name, value in after.items() if name not in _VOLATILE and before.get(name) != value}
    gone = [name for name in before if name not in after and name not in _VOLATILE]
    return Delta(changed, gone, {path: _digest(path) or "" for path in sourced})


def _digest(path: str) -> Optional[str]:
    raw = procfs.read_small(path, 64 << 20)
    return None if raw is None else hashlib.sha256(raw).hexdigest()


def _stamp(path: str) -> Tuple[int, int, int]:
    try:
        stat = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _remember(key: str, delta: Delta) -> None:
    with _lock:
        _entries[key] = _Entry(delta, {path: _stamp(path) for path in delta.files})


def _from_memory(key: str) -> Optional[Delta]:
    entry = _entries.get(key)
    if entry is None or any(_stamp(path) != stamp for path, stamp in entry.stamps.items()):
        return None
    return entry.delta


def _from_disk(key: str) -> Optional[Delta]:
    raw = procfs.read_small(_cache_path(key), 16 << 20)
    if raw is None:
        return None
    try:
        fields = cast("Dict[str, Any]", json.loads(raw.decode("utf-8")))
        delta = Delta(dict(fields["set"]), list(fields["unset"]), dict(fields["files"]))
    except (ValueError, KeyError, TypeError):
        return None  # torn or from another version: sourced and written anew
    if any(_digest(path) != digest for path, digest in delta.files.items()):
        return None
    _remember(key, delta)
    return delta
