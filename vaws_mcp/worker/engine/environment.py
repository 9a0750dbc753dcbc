"""The environment of commands: the container's own, then the env files or CANN's, then the virtual environment.

Sourcing vendor scripts takes from 0.1 s to many seconds, so what they do is kept: see ``environment_cache``.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..facts import procfs
from ..params import Params
from ..refusal import Refusal, bad_request
from .environment_cache import Delta, difference, kept, key_of
from .sourcing import Script, source_files

_SSH_NAMES = ("SSH_CLIENT", "SSH2_CLIENT", "SSH_CONNECTION", "SSH_TTY")
_INIT_NAMES = ("systemd", "init")


class Prepared(NamedTuple):
    """An environment; ``direct``, ``cached`` or ``sourced``; which scripts made it and why these."""

    env: Dict[str, str]
    source: str
    notes: Dict[str, Any]


_lock = threading.Lock()
_bases: Dict[bool, Dict[str, str]] = {}


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
    made = prepare_noted(values, check)
    return made.env, made.source


def prepare_noted(values: Mapping[str, Any], check: Callable[[], None]) -> Prepared:
    """Do as ``prepare`` and tell what was sourced.

    ``env_files`` are sourced when there are some. Else, with ``find_cann``, the scripts of an installed CANN are; where
    there is none this costs a look at two directories. ``cxx_abi`` (0 or 1) is that of ATB; null means torch's.
    """
    spec = Params(values, "env_spec.")
    env = base_environment(spec.flag("use_container_env", True))
    venv = spec.optional_text("venv")
    found: Optional[Tuple[Delta, str]] = None
    env_files = [os.path.expanduser(path) for path in spec.texts("env_files")]
    if env_files:
        found = _files_sourced(env, env_files, spec.flag("refresh"), check)
    elif spec.flag("find_cann"):
        found = _cann_sourced(env, venv, spec, check)
    delta, source = found or (Delta({}, [], {}, {}), "direct")
    for name in delta.unset:
        env.pop(name, None)
    env.update(delta.set)
    if venv is not None:
        _activate(env, os.path.expanduser(venv))
    return Prepared(env, source, delta.notes)


def _activate(env: Dict[str, str], venv: str) -> None:
    folder = os.path.join(venv, "bin")
    if not os.path.isdir(folder):
        raise Refusal("venv_missing", f"{venv} is not a virtual environment: it has no bin directory")
    env["VIRTUAL_ENV"] = venv
    env["PATH"] = folder + os.pathsep + env.get("PATH", os.defpath)
    env.pop("PYTHONHOME", None)


def _files_sourced(
    base: Dict[str, str], env_files: List[str], refresh: bool, check: Callable[[], None]
) -> Tuple[Delta, str]:
    for path in env_files:
        if not os.path.isfile(path):
            hint = "Correct env_files of the endpoint, or create the file."
            raise Refusal("env_file_missing", f"{path}: the environment file does not exist", hint=hint)

    def make() -> Delta:
        after, read = source_files(dict(base), [Script(path) for path in env_files], check)
        return difference(base, after, read, {"scripts": env_files, "from": "env_files"})

    return kept(key_of(base, env_files), refresh, make)


def _cann_sourced(
    base: Dict[str, str], venv: Optional[str], spec: Params, check: Callable[[], None]
) -> Optional[Tuple[Delta, str]]:
    """Source the scripts of the installed CANN; return None where there is none."""
    from . import cann_environment as cann  # most endpoints of other kinds never need it

    setup = cann.find_setup(base)
    if setup is None:
        return None
    asked = spec.optional_integer("cxx_abi")
    if asked not in (None, 0, 1):
        raise bad_request(f"env_spec.cxx_abi must be 0 or 1, not {asked}")

    def make() -> Delta:
        inside = dict(base)
        if venv is not None:
            _activate(inside, os.path.expanduser(venv))
        abi = cann.abi_for(setup, inside, asked, check)
        scripts = [Script(setup.toolkit)]
        if setup.atb is not None and abi is not None:
            scripts.append(Script(setup.atb, f"--cxx_abi={abi.value}"))
        after, read = _sourced_or_explained(base, scripts, check)
        cann.tidy(after, setup, abi)
        notes: Dict[str, Any] = {"scripts": [" ".join(filter(None, script)) for script in scripts], "from": "cann"}
        if abi is not None:
            notes.update(cxx_abi=abi.value, cxx_abi_from=abi.source)
            read = [*read, *abi.files]
        return difference(base, after, read, notes)

    return kept(key_of(base, [*setup, venv, asked]), spec.flag("refresh"), make)


def _sourced_or_explained(
    base: Dict[str, str], scripts: List[Script], check: Callable[[], None]
) -> Tuple[Dict[str, str], List[str]]:
    try:
        return source_files(dict(base), scripts, check)
    except Refusal as refusal:
        if refusal.code == "env_failed":
            refusal.hint = "Name the scripts to source in env_files of the endpoint, or set cann = false for it."
        raise
