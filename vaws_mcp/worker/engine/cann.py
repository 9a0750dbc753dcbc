"""Which versions of driver, CANN and NNAL are installed, from their version files.

What is absent is null; what could not be read is ``{"error": why}``.
"""

from __future__ import annotations

import glob
import os
from typing import Any, Dict, List, Optional

from ..facts import procfs
from ..facts.versions import parse_fields, version_in

Value = Optional[Dict[str, Any]]

_MAX_FILE = 1 << 20
_CANN_HOMES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/cann-*",
    "/usr/local/Ascend/cann-*/cann-*",
    "/opt/conda/Ascend/cann*",
)


def cann(env: Dict[str, str], prefix: str = "") -> Dict[str, Value]:
    """Return the versions of driver, toolkit, operator package and NNAL; ``prefix`` stands before every path."""
    homes = [glob.escape(env[name]) for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME") if env.get(name)]
    homes.extend(_CANN_HOMES)
    atb = ["/usr/local/Ascend/nnal/atb/latest"]
    if env.get("ATB_HOME_PATH"):  # it points to atb/cxx_abi_1 below the directory of the version
        atb.insert(0, glob.escape(os.path.dirname(os.path.dirname(env["ATB_HOME_PATH"].rstrip("/")))))
    return {
        "driver": _first(prefix, [driver_home(prefix) + "/driver/version.info"]),
        "toolkit": _first(prefix, [home + "/*-linux/ascend_toolkit_install.info" for home in homes]),
        "operators": _first(
            prefix,
            [home + "/*-linux/ascend_ops_install.info" for home in homes]
            + [home + "/opp_kernel/version.info" for home in homes],
        ),
        "nnal": _first(prefix, [home + "/version.info" for home in atb]),
    }


def driver_home(prefix: str = "") -> str:
    """Return the directory that the driver is installed below."""
    raw = procfs.read_small(prefix + "/etc/ascend_install.info") or b""
    named = parse_fields(raw.decode("utf-8", "replace")).get("driver_install_path_param")
    return named if named and named.startswith("/") else "/usr/local/Ascend"


def _first(prefix: str, patterns: List[str]) -> Value:
    """Return the version in the first file that one of the patterns finds."""
    for pattern in patterns:
        for path in sorted(glob.glob(prefix + pattern), reverse=True):
            return _version_file(path)
    return _locked(prefix, patterns)


def _locked(prefix: str, patterns: List[str]) -> Value:
    """Tell which directory hides whether there is a version, if one does."""
    for pattern in patterns:
        folder = os.path.dirname(prefix + pattern.partition("*")[0])
        while len(folder) > 1 and not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        if not os.access(folder, os.R_OK | os.X_OK):
            return {"error": f"{folder}: Permission denied"}
    return None


def _version_file(path: str) -> Dict[str, Any]:
    try:
        text = text_of(path)
    except OSError as error:
        return {"error": f"{path}: {error.strerror or error}"}
    version = version_in(text)
    if version is None:
        return {"error": f"{path}: it states no version"}
    return {"version": version, "path": path}


def text_of(path: str) -> str:
    """Return the beginning of a small text file.

    Raises: OSError.
    """
    with open(path, "rb") as stream:
        return stream.read(_MAX_FILE).decode("utf-8", "replace")
