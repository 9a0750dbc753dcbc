"""``probe``: what the endpoint is, in one round trip."""

from __future__ import annotations

import glob
import locale
import os
import platform
import pwd
import shutil
import socket
import sys
import tempfile
from typing import Any, Dict, Optional
from urllib.parse import urlsplit, urlunsplit

from ..facts import procfs
from ..request import Answer, Request
from .cann import cann
from .environment import base_environment, home

_TOOLS = ("git", "bash", "rg", "tar", "npu-smi", "vllm")
_PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CONTAINER_MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}


def probe(_request: Request) -> Answer:
    """Answer with facts about system, Python, user, tools, devices, CANN and container."""
    env = base_environment()
    result: Dict[str, Any] = {
        "os_release": _os_release(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "python_executable": sys.executable,
        "boot_id": procfs.boot_id(),
        "cpus": os.cpu_count(),
        "locale": env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG"),
        "preferred_encoding": locale.getpreferredencoding(False),
        "proxies": _proxies(env),
        "tools": {name: shutil.which(name, path=env.get("PATH")) for name in _TOOLS},
        "npu_devices": sorted(glob.glob("/dev/davinci[0-9]*")),
        "npu_manager": os.path.exists("/dev/davinci_manager"),
        "cann": cann(env),
        "simulated": bool(os.environ.get("VAWS_SIM")),
    }
    result.update(_user())
    result.update(_host())
    result.update(_memory())
    result.update(_disks())
    result.update(_container())
    return result, b""


def user_name(uid: int) -> Optional[str]:
    """Return the name of a user, or None when the system does not know it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _user() -> Dict[str, Any]:
    uid = os.getuid()
    return {"uid": uid, "user": user_name(uid), "home": home()}


def _os_release() -> Dict[str, str]:
    raw = procfs.read_small("/etc/os-release") or procfs.read_small("/usr/lib/os-release") or b""
    found: Dict[str, str] = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and name in ("ID", "VERSION_ID", "PRETTY_NAME"):
            found[name.lower()] = value.strip().strip("\"'")
    return found


def _host() -> Dict[str, Any]:
    name = socket.gethostname()
    raw = procfs.read_small("/etc/hosts")
    known = None
    if raw is not None:
        lines = (line.partition("#")[0].split() for line in raw.decode("utf-8", "replace").splitlines())
        known = any(name in fields[1:] for fields in lines)
    return {"hostname": name, "hostname_in_hosts": known}


def _memory() -> Dict[str, Optional[int]]:
    found: Dict[str, Optional[int]] = {"memory_total_bytes": None, "memory_available_bytes": None}
    raw = procfs.read_small("/proc/meminfo") or b""
    for line in raw.decode("ascii", "replace").splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0] in ("MemTotal:", "MemAvailable:"):
            key = "memory_total_bytes" if fields[0] == "MemTotal:" else "memory_available_bytes"
            found[key] = int(fields[1]) * 1024
    return found


def _free_bytes(path: str) -> Optional[int]:
    try:
        facts = os.statvfs(path)
    except OSError:
        return None
    return facts.f_bavail * facts.f_frsize


def _disks() -> Dict[str, Any]:
    return {"disk_free_bytes": {"home": _free_bytes(home()), "tmp": _free_bytes(tempfile.gettempdir())}}


def _proxies(env: Dict[str, str]) -> Dict[str, str]:
    return {name: without_user_info(value) for name, value in env.items() if name.lower() in _PROXY_NAMES}


def without_user_info(url: str) -> str:
    """Return a proxy address without the user name and password it may carry."""
    if "@" not in url:
        return url
    parts = urlsplit(url if "://" in url else "//" + url)
    clean = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return clean if "://" in url else clean[2:]


def _container() -> Dict[str, Any]:
    first = procfs.read_process(1)
    kind = next((kind for path, kind in _CONTAINER_MARKS.items() if os.path.exists(path)), None)
    cgroup = (procfs.read_small("/proc/1/cgroup") or b"").decode("utf-8", "replace")
    if kind is None:
        kind = next((word for word in ("docker", "kubepods", "containerd", "libpod") if word in cgroup), None)
    return {
        "container_hint": kind,
        "init_comm": None if first is None else first.comm,
        "pid_namespace": _namespace("pid"),
        "net_namespace": _namespace("net"),
    }


def _namespace(kind: str) -> Optional[str]:
    try:
        return os.readlink("/proc/self/ns/" + kind)
    except OSError:
        return None
