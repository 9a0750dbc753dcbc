"""``tree.native``: what native parts are built from, files and toolchain, each by its identity."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from typing import Any, Dict, Optional

from ...refusal import Refusal
from ...request import Answer, Request
from .. import environment
from ..ask import ask
from ..cann import cann
from ..facts_context import packages
from .git import Git
from .native_inputs import INPUTS, VARIABLES, kind_of
from .place import git_of
from .snapshot import Objects, take

_PYTHON = (
    "import json, sys, sysconfig; paths = sysconfig.get_paths(); "
    "print(json.dumps([sysconfig.get_config_var('SOABI'), [paths['purelib'], paths['platlib']] + sys.path]))"
)
_PACKAGES = ("torch", "torch-npu")

Parts = Dict[str, Optional[str]]


def native(request: Request) -> Answer:
    """Answer with {parts, trouble, tree, commit}: what native parts are built from. A part that is absent is null.

    ``trouble`` names parts that could not be found out; with any of them nothing is proven.
    Params: repo, env_spec.
    """
    trouble: Dict[str, str] = {}
    parts: Parts = {}
    git = git_of(request, for_write=False)
    with tempfile.TemporaryDirectory(prefix="vaws-objects-") as scratch:
        objects = Objects(scratch)
        now = take(git, objects)
        parts.update(_files(objects.of(git), now.tree))
    parts.update(_toolchain(request, trouble))
    return {"parts": parts, "trouble": trouble, "tree": now.tree, "commit": now.commit}, b""


def _files(git: Git, tree: str) -> Parts:
    """Return each file's mode and object id; a submodule's is its commit."""
    inputs = INPUTS[kind_of(git.top)]
    parts: Parts = {}
    for record in git.out("ls-tree", "-r", "-z", tree, "--", *inputs).split(b"\0"):
        fields, _, path = record.partition(b"\t")
        if path:
            mode, _kind, oid = fields.decode().split(" ")
            parts[f"file {os.fsdecode(path)}"] = f"{mode} {oid}"
    return parts


def _toolchain(request: Request, trouble: Dict[str, str]) -> Parts:
    parts: Parts = {}
    try:
        env, _source = environment.prepare(request.params.mapping("env_spec"), request.check)
    except Refusal as refusal:
        request.check()
        trouble["environment"] = refusal.message
        return parts
    for name in VARIABLES:
        parts[f"env {name}"] = env.get(name)
    for name, value in cann(env).items():
        if name != "driver":  # it is not built against
            _take(parts, trouble, f"cann {name}", value)
    _python(request, env, parts, trouble)
    return parts


def _python(request: Request, env: Dict[str, str], parts: Parts, trouble: Dict[str, str]) -> None:
    found = (shutil.which(name, path=env.get("PATH")) for name in ("python3", "python"))
    program = next((path for path in found if path), None)
    if program is None:
        trouble["python"] = "there is no python3 in the environment of commands"
        return
    try:
        abi, folders = json.loads(ask(request, [program, "-I", "-c", _PYTHON], env))
    except (Refusal, ValueError) as error:
        request.check()
        trouble["python"] = f"{program}: {error}"
        return
    parts["python abi"] = abi
    installed = packages(folders)
    for name in _PACKAGES:
        _take(parts, trouble, name, installed[name])


def _take(parts: Parts, trouble: Dict[str, str], name: str, value: Optional[Dict[str, Any]]) -> None:
    """Note a version; what is absent is a fact too, and what cannot be read is none."""
    if value is not None and "error" in value:
        trouble[name] = str(value["error"])
    else:
        parts[name] = None if value is None else str(value["version"])
