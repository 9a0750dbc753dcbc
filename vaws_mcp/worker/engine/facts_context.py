"""``context``: which versions of everything a service on this endpoint would use. Nothing is imported or written.

What is absent is null; what could not be read is ``{"error": why}``.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Any, Dict, Iterable, List, Optional, Tuple
from urllib.parse import unquote, urlsplit

from ..facts.versions import parse_distribution, parse_git_status, parse_metadata_version
from ..refusal import Refusal
from ..request import Answer, Request
from . import environment
from .ask import ask
from .cann import Value, cann, text_of

PACKAGES = ("torch", "torch-npu", "triton-ascend", "vllm", "vllm-ascend", "transformers")

_PYTHON = (
    "import json, platform, sys, sysconfig; paths = sysconfig.get_paths(); "
    "print(json.dumps([platform.python_version(), [paths['purelib'], paths['platlib']] + sys.path]))"
)


def context(request: Request) -> Answer:
    """Answer with the versions of driver, CANN, NNAL, Python and its packages, and the state of the source trees."""
    params = request.params
    made = environment.prepare_noted(params.mapping("env_spec"), request.check)
    python, folders = _python(request, made.env)
    named = {name: params.optional_text(name + "_repo") for name in ("vllm", "vllm_ascend")}
    repos = {name: None if path is None else _tree(request, os.path.expanduser(path)) for name, path in named.items()}
    installed: Dict[str, Value] = dict.fromkeys(PACKAGES, python)
    if folders is not None:
        installed = packages(folders)
    return {
        "environment": {"source": made.source, **made.notes},
        "cann": cann(made.env),
        "python": python,
        "packages": installed,
        "repos": repos,
        "editable": _editable_trees(request, installed, repos),
    }, b""


def _editable_trees(
    request: Request, installed: Dict[str, Value], repos: Dict[str, Value]
) -> Dict[str, Optional[Dict[str, Any]]]:
    """Return the state of the trees that packages are installed from in place; it is their code that runs."""
    known = {tree["path"]: tree for tree in repos.values() if tree is not None and "path" in tree}
    found: Dict[str, Optional[Dict[str, Any]]] = {}
    for name, package in installed.items():
        path = None if package is None else package.get("editable")
        if path is not None:
            found[name] = known.get(path) or _tree(request, path)
    return found


def _python(request: Request, env: Dict[str, str]) -> Tuple[Value, Optional[List[str]]]:
    """Ask the interpreter that commands would use for its version and where its packages lie."""
    found = (shutil.which(name, path=env.get("PATH")) for name in ("python3", "python"))
    program = next((path for path in found if path), None)
    if program is None:
        return None, []
    try:
        out = ask(request, [program, "-I", "-c", _PYTHON], env)
        version, folders = json.loads(out)
    except (Refusal, ValueError) as error:
        request.check()
        return {"error": f"{program}: {error}"}, None
    return {"version": version, "executable": program}, list(dict.fromkeys(folders))


def packages(folders: Iterable[str]) -> Dict[str, Value]:
    """Return what is installed in the first of the folders that has each package, from metadata alone."""
    found: Dict[str, Value] = dict.fromkeys(PACKAGES)
    for folder in folders:
        try:
            here = _distributions(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            trouble = {"error": f"{folder}: {error.strerror or error}"}
            return {name: value or trouble for name, value in found.items()}
        for name, entries in here.items():
            found[name] = found[name] or _distribution(folder, entries)
    return found


def _distributions(folder: str) -> Dict[str, List[str]]:
    here: Dict[str, List[str]] = {}
    for entry in sorted(os.listdir(folder)):
        known = parse_distribution(entry)
        if known is not None and known[0] in PACKAGES:
            here.setdefault(known[0], []).append(entry)
    return here


def _distribution(folder: str, entries: List[str]) -> Dict[str, Any]:
    if len(entries) > 1:
        return {"error": f"{folder} has several versions: {', '.join(entries)}"}
    path = os.path.join(folder, entries[0])
    inside = "METADATA" if path.endswith(".dist-info") else "PKG-INFO"
    name = path if os.path.isfile(path) else os.path.join(path, inside)
    try:
        version = parse_metadata_version(text_of(name))
    except OSError as error:
        return {"error": f"{name}: {error.strerror or error}"}
    if version is None:
        return {"error": f"{name}: it states no version"}
    return {"version": version, "path": path, "editable": _editable(path)}


def _editable(path: str) -> Optional[str]:
    """Return the source tree of an editable installation."""
    try:
        origin = json.loads(text_of(os.path.join(path, "direct_url.json")))
        if origin["dir_info"].get("editable"):
            return unquote(urlsplit(str(origin["url"])).path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _tree(request: Request, path: str) -> Value:
    """Return commit, branch and number of uncommitted changes of a git tree."""
    if not os.path.exists(path):
        return None
    env = environment.base_environment()
    git = shutil.which("git", path=env.get("PATH"))
    if git is None:
        return {"error": f"{path}: there is no git on this machine"}
    # A tree may name a program as its file watcher: it is not started.
    argv = [git, "-C", path, "-c", f"safe.directory={path}", "-c", "core.fsmonitor=false", "status"]
    try:
        facts = parse_git_status(ask(request, [*argv, "--porcelain=v2", "--branch", "--untracked-files=normal"], env))
    except Refusal as error:
        request.check()
        return {"error": f"{path}: {error.message}"}
    return {
        "path": path,
        "commit": facts.commit,
        "branch": facts.branch,
        "dirty": facts.changes > 0,
        "changes": facts.changes,
    }
