"""Which C++ ABI the installed torch was built with, without an import where its CMake file says so."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..facts.procfs import read_small
from ..refusal import Refusal
from .sourcing import run_bounded

DEFAULT = 1
"""What all wheels of torch are built with since 2.7, and those for aarch64 long before."""

_CONFIG = "share/cmake/Torch/TorchConfig.cmake"
_DEFINED = re.compile(r"_GLIBCXX_USE_CXX11_ABI=([01])\b")
_LOOK_S = 20.0
_IMPORT_S = 90.0
# The present directory is left out: a tree named torch in it is no installation.
_LOOK = (
    "import importlib.util, json, sys, sysconfig; sys.path[:] = [path for path in sys.path if path]; "
    "spec = importlib.util.find_spec('torch'); places = list(spec.submodule_search_locations or []) if spec else []; "
    "print(json.dumps([places, sysconfig.get_paths()['platlib']]))"
)
_IMPORT = "import torch; print(int(torch.compiled_with_cxx11_abi()))"


class Abi(NamedTuple):
    """The ABI, 0 or 1; who says so (``endpoint``, ``torch`` or ``default``); the files that it was read from."""

    value: int
    source: str
    files: List[str]


def find_abi(env: Dict[str, str], check: Callable[[], None]) -> Abi:
    """Return the ABI of the torch that commands with ``env`` would import, else the default of current builds.

    ``files`` may name a file that is absent: when it appears, the answer has to be found anew.
    """
    found = (shutil.which(name, path=env.get("PATH")) for name in ("python3", "python"))
    program = next((path for path in found if path), None)
    if program is None:
        return Abi(DEFAULT, "default", [])
    looked: Any = _last_json(program, _LOOK, env, check, _LOOK_S)
    if not isinstance(looked, list):
        return Abi(DEFAULT, "default", [])
    places, folder = looked
    config = os.path.join(places[0] if places else os.path.join(folder, "torch"), _CONFIG)
    if not places:
        return Abi(DEFAULT, "default", [config])
    said = _DEFINED.search((read_small(config) or b"").decode("utf-8", "replace"))
    if said:
        return Abi(int(said[1]), "torch", [config])
    # A device back end must not be loaded: it needs the very environment that is being made.
    imported: Any = _last_json(program, _IMPORT, {**env, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, check, _IMPORT_S)
    files = [config, os.path.join(places[0], "version.py")]
    return Abi(imported, "torch", files) if imported in (0, 1) else Abi(DEFAULT, "default", files)


def _last_json(
    program: str, text: str, env: Dict[str, str], check: Callable[[], None], bound_s: float
) -> Optional[Any]:
    """Run a line of Python and return the JSON on its last line of output, or None."""
    with tempfile.TemporaryDirectory(prefix="vaws-env-") as folder:
        log = os.path.join(folder, "log")
        try:
            code = run_bounded([program, "-c", text], env, log, check, bound_s)
        except Refusal as refusal:
            if refusal.code != "env_failed":
                raise  # the caller gave up
            return None
        if code != 0:
            return None
        lines = (read_small(log) or b"").decode("utf-8", "replace").strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
