"""All methods of the worker by name. A method takes a request and returns its result and body."""

from __future__ import annotations

import importlib
from typing import Callable, Dict, Tuple

from .request import Answer, Request

Method = Callable[[Request], Answer]

# Modules are imported at the first use of a method, so that the worker starts quickly.
_WHERE: Dict[str, Tuple[str, str]] = {
    "run": (".engine.run", "run"),
    "read": (".engine.files", "read"),
    "write": (".engine.files", "write"),
    "probe": (".engine.facts_probe", "probe"),
    "http": (".engine.http", "http_request"),
    "ports": (".engine.ports", "ports"),
    "free_port": (".engine.ports", "free_port"),
    "execution.submit": (".executions", "submit"),
    "execution.status": (".executions", "status"),
    "execution.stop": (".executions", "stop"),
    "execution.wait": (".executions", "wait"),
    "execution.list": (".executions", "list_all"),
    "execution.tail": (".executions", "tail"),
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
