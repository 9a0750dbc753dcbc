"""All methods of the worker by name. A method takes a request and returns its result and body."""

from __future__ import annotations

import importlib
from typing import Callable, Dict, Tuple

from .request import Answer, Request

Method = Callable[[Request], Answer]

# Modules are imported at the first use of a method, so that the worker starts quickly.
_WHERE: Dict[str, Tuple[str, str]] = {
    "run": (".engine.run", "run"),
    "job.status": (".engine.jobs", "status"),
    "job.list": (".engine.jobs", "list_all"),
    "job.tail": (".engine.jobs", "tail"),
    "job.stdin": (".engine.jobs", "stdin"),
    "job.stop": (".engine.jobs", "stop"),
    "read": (".engine.files", "read"),
    "write": (".engine.files", "write"),
    "artifact_manifest": (".engine.artifacts.listing", "manifest"),
    "edit": (".engine.edit", "edit"),
    "patch": (".engine.patch", "patch"),
    "probe": (".engine.facts_probe", "probe"),
    "context": (".engine.facts_context", "context"),
    "npu.probe": (".engine.npu.probe", "probe"),
    "build.inspect": (".engine.build_tree", "inspect"),
    "http": (".engine.http", "http_request"),
    "ports": (".engine.ports", "ports"),
    "free_port": (".engine.ports", "free_port"),
    "ls": (".engine.listing", "list_directory"),
    "glob": (".engine.globbing", "glob"),
    "grep": (".engine.grep", "grep"),
    "execution.submit": (".executions", "submit"),
    "execution.status": (".executions", "status"),
    "execution.stop": (".executions", "stop"),
    "execution.wait": (".executions", "wait"),
    "execution.list": (".executions", "list_all"),
    "execution.tail": (".executions", "tail"),
    "execution.touch": (".executions", "touch"),
    "lease.list": (".leases", "list_all"),
    "tree.lock_state": (".leases", "tree_lock_state"),
    "tree.state": (".engine.tree.state", "state"),
    "tree.receive": (".engine.tree.receive", "receive"),
    "tree.materialise": (".engine.tree.materialise", "materialise"),
    "tree.native": (".engine.tree.native", "native"),
    "tree.stash": (".engine.tree.work", "stash"),
    "tree.clear": (".engine.tree.work", "clear"),
    "tree.unstash": (".engine.tree.work", "unstash"),
    "tree.patch": (".engine.tree.work", "patch"),
    "stale.cleanup": (".engine.stale.cleanup", "cleanup"),
}


def ping(_request: Request) -> Answer:
    """Answer at once, to show that the worker is alive."""
    return {}, b""


_loaded: Dict[str, Method] = {"ping": ping}


def find(name: str) -> Method:
    """Return the method with this name.

    Raises: KeyError when there is none.
    """
    method = _loaded.get(name)
    if method is None:
        module, attribute = _WHERE[name]
        method = getattr(importlib.import_module(module, __package__), attribute)
        _loaded[name] = method
    return method
