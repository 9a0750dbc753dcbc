"""CANN's environment where nobody has named env_files: which scripts to source, and how to tidy what they leave.

Source: the layouts of CANN installations. Up to 8.x the toolkit is ``ascend-toolkit/set_env.sh``, from 8.5 on
``cann/set_env.sh`` or ``cann-X.Y.Z/set_env.sh``; ATB belongs to NNAL and takes ``--cxx_abi=0|1``. Without that flag it
imports torch, which takes seconds, and guesses when there is no torch.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional

from .cann import driver_home
from .torch_abi import Abi, find_abi

ROOTS = ("/usr/local/Ascend", "/opt/conda/Ascend")
_VERSIONED = ("cann-*/set_env.sh", "cann-*/cann-*/set_env.sh")
_PLAIN = ("cann/set_env.sh", "ascend-toolkit/set_env.sh", "ascend-toolkit/latest/set_env.sh")
_ATB = ("nnal/atb/set_env.sh", "nnal/atb/latest/atb/set_env.sh")
_LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_LEVELS = 4


class Setup(NamedTuple):
    """The scripts of an installation and the directories of its driver's libraries."""

    toolkit: str
    atb: Optional[str]
    libraries: List[str]


def find_setup(env: Mapping[str, str], prefix: str = "") -> Optional[Setup]:
    """Return the installation that commands should use, or None; ``prefix`` stands before every usual path.

    The one that the container's own environment names comes first. Of several versions the newest counts.
    """
    named = [env[name] for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH") if env.get(name)]
    roots = [path for path in (prefix + root for root in ROOTS) if os.path.isdir(path)]
    if not named and not roots:
        return None
    toolkit = _first(_named_scripts(named)) or _first(_usual_scripts(roots))
    if toolkit is None:
        return None
    homes = [*_parents(toolkit), *roots]
    atb = _first([os.path.join(home, name) for home in homes for name in _ATB])
    driver = driver_home(prefix) + "/driver/lib64"
    libraries = [driver, driver + "/common", driver + "/driver", "/usr/local/lib"]
    return Setup(toolkit, atb, [path for path in libraries if os.path.isdir(prefix + path)])


def _named_scripts(homes: List[str]) -> List[str]:
    found: List[str] = []
    for home in homes:
        found.append(os.path.join(home, "set_env.sh"))
        if os.path.basename(home.rstrip("/")) == "latest":
            found.append(os.path.join(os.path.dirname(home.rstrip("/")), "set_env.sh"))
    return found


def _usual_scripts(roots: List[str]) -> List[str]:
    found = [os.path.join(root, name) for root in roots for name in _PLAIN]
    for root in roots:
        versioned = [path for name in _VERSIONED for path in glob.glob(os.path.join(glob.escape(root), name))]
        found.extend(sorted(versioned, key=_version_key, reverse=True))
    return found


def _version_key(path: str) -> List[List[int]]:
    """Order by the numbers of the versions, then the outer of nested directories first."""
    parts = [part for part in path.split(os.sep) if part.startswith("cann-")]
    return [[int(number) for number in re.findall(r"\d+", parts[-1])], [-len(parts)]]


def _parents(path: str) -> List[str]:
    found: List[str] = []
    for _ in range(_LEVELS):
        path = os.path.dirname(path)
        if len(path) > 1:
            found.append(path)
    return found


def _first(paths: List[str]) -> Optional[str]:
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)), None)


def abi_for(setup: Setup, env: Mapping[str, str], asked: Optional[int], check: Callable[[], None]) -> Optional[Abi]:
    """Return the C++ ABI that ATB is to be set up for: what was asked, else torch's; None without ATB."""
    if setup.atb is None:
        return None
    return Abi(asked, "endpoint", []) if asked is not None else find_abi(dict(env), check)


def tidy(env: Dict[str, str], setup: Setup, abi: Optional[Abi]) -> None:
    """Add the driver's libraries behind CANN's own; drop doubled and empty entries and those of the other C++ ABI.

    An empty entry means the present directory, which must not decide what is loaded.
    """
    others = set() if abi is None else {f"cxx_abi_{1 - abi.value}"}
    libraries = env.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    env["LD_LIBRARY_PATH"] = os.pathsep.join([*libraries, *setup.libraries])
    for name in _LISTS:
        entries = [entry for entry in env.get(name, "").split(os.pathsep) if entry]
        plain = {entry: entry.rstrip("/") or "/" for entry in entries}
        kept = [entry for entry in entries if not others.intersection(entry.split("/"))]
        first: Dict[str, str] = {}
        for entry in kept:
            first.setdefault(plain[entry], entry)
        if first:
            env[name] = os.pathsep.join(first.values())
        else:
            env.pop(name, None)
