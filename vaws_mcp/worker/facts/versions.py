"""Version files of CANN and its driver, names of installed Python packages, and what git says about a tree.

Everything here is pure: text in, facts out.

Source: the install records of CANN (``ascend_toolkit_install.info``, ``ascend_ops_install.info``: ``version=``), of its
operator kernels before 8.5 (``opp_kernel/version.info``: ``version_dir=``), of the driver (``Version=``) and of NNAL
(``Ascend-cann-atb : 8.2.RC2``); the core metadata of Python packages; ``git status --porcelain=v2 --branch``.
"""

from __future__ import annotations

import re
from typing import Dict, NamedTuple, Optional, Tuple

_FIELD = re.compile(r"^\s*([A-Za-z][\w. -]*?)\s*[=:]\s*(.*?)\s*$")
_DISTRIBUTION = re.compile(r"^(?P<name>.+?)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist-info|egg-info)$")
_VERSION_KEYS = ("version_dir", "version", "ascend-cann-atb", "package_version")


def parse_fields(text: str) -> Dict[str, str]:
    """Return ``key=value`` and ``key : value`` lines with keys in lower case; the first of equal keys counts."""
    found: Dict[str, str] = {}
    for line in text.splitlines():
        match = _FIELD.match(line)
        if match and match[2]:
            found.setdefault(match[1].lower(), match[2].strip("\"'"))
    return found


def version_in(text: str) -> Optional[str]:
    """Return the version that a version file states, or None when it states none."""
    fields = parse_fields(text)
    return next((fields[key] for key in _VERSION_KEYS if key in fields), None)


def plain_name(name: str) -> str:
    """Return the name of a package as the index compares it: lower case, runs of ``-_.`` are one dash."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_distribution(entry: str) -> Optional[Tuple[str, str]]:
    """Return name and version from the name of a ``.dist-info`` or ``.egg-info`` directory, or None."""
    match = _DISTRIBUTION.match(entry)
    return (plain_name(match["name"]), match["version"]) if match else None


def parse_metadata_version(text: str) -> Optional[str]:
    """Return the ``Version`` header of a package's metadata."""
    for line in text.splitlines():
        if not line.strip():
            return None  # the description follows
        key, colon, value = line.partition(":")
        if colon and key.strip().lower() == "version":
            return value.strip()
    return None


class TreeFacts(NamedTuple):
    """Where a git tree stands. ``commit`` is None before the first one, ``branch`` for a detached head."""

    commit: Optional[str]
    branch: Optional[str]
    changes: int


def parse_git_status(text: str) -> TreeFacts:
    """Read the output of ``git status --porcelain=v2 --branch -z`` or the same in lines."""
    commit: Optional[str] = None
    branch: Optional[str] = None
    changes = 0
    for line in text.replace("\0", "\n").splitlines():
        if line.startswith("# branch.oid "):
            commit = line[13:] if line[13:] != "(initial)" else None
        elif line.startswith("# branch.head "):
            branch = line[14:] if line[14:] != "(detached)" else None
        elif line[:2] in ("1 ", "2 ", "u ", "? "):
            changes += 1
    return TreeFacts(commit, branch, changes)
