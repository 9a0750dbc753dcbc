"""Comparing the versions of an endpoint with a runtime profile. Pure: facts in, items out."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.presets.runtimes import RuntimeProfile, VllmAscend

Facts = dict[str, Any]
Status = Literal["match", "mismatch", "missing", "unreadable"]

TREE = "vllm-ascend tree"

_LOCAL_COMMIT = re.compile(r"g([0-9a-f]{7,40})")


class Item(BaseModel):
    """One version of a profile and what the endpoint has."""

    model_config = ConfigDict(extra="forbid")

    component: str = Field(description="python, driver, cann toolkit, torch, vllm, vllm-ascend, …")
    status: Status = Field(description="match, mismatch, missing (not installed) or unreadable (could not be seen).")
    wanted: str = Field(description="What the profile says.")
    found: str | None = Field(default=None, description="What the endpoint has; null when missing or unreadable.")
    note: str | None = Field(default=None, description="Why it is not a match, or where it lies.")


@dataclass(frozen=True)
class Comparison:
    """All items of one profile."""

    profile: RuntimeProfile
    items: list[Item]

    @property
    def matched(self) -> int:
        """How many items match."""
        return sum(item.status == "match" for item in self.items)

    @property
    def whole(self) -> bool:
        """Whether the endpoint has this profile: every item matches."""
        return self.matched == len(self.items)

    def item(self, component: str) -> Item | None:
        """Return the item of a component, or None when the profile does not name it."""
        return next((item for item in self.items if item.component == component), None)


def compare(profile: RuntimeProfile, versions: Facts) -> Comparison:
    """Hold the answer of the worker's ``context`` against a profile; only what the profile names becomes an item."""
    items: list[Item] = []
    if profile.python:
        items.append(_judged("python", profile.python, versions["python"], _same_python))
    if profile.driver:
        items.append(_judged("driver", profile.driver, versions["cann"]["driver"], _same_release))
    for part in ("toolkit", "operators", "nnal"):
        wanted = getattr(profile.cann, part)
        if wanted:
            items.append(_judged(f"cann {part}", wanted, versions["cann"][part], _same_release))
    for name, wanted in profile.packages.items():
        items.append(_judged(name, wanted, versions["packages"].get(name), why_another_build))
    if profile.vllm_ascend:
        items.extend(_sources(profile.vllm_ascend, versions))
    return Comparison(profile, items)


def nearest(comparisons: list[Comparison]) -> Comparison | None:
    """Return the comparison with the largest share of matches; of equal ones the first."""
    return max(comparisons, key=lambda one: one.matched / max(1, len(one.items)), default=None)


def not_matching(items: list[Item]) -> list[Item]:
    """Return the items that are in the way of a whole match."""
    return [item for item in items if item.status != "match"]


def named(items: list[Item]) -> str:
    """Return items in a few words: what was found, or why nothing was."""
    return ", ".join(f"{item.component} {item.found or item.status}" for item in items)


def _judged(component: str, wanted: str, found: Facts | None, why_not: Callable[[str, str], str | None]) -> Item:
    """Make the item of a plain version. ``why_not(wanted, found)`` is None when they are the same."""
    if found is None:
        return Item(component=component, status="missing", wanted=wanted)
    if "version" not in found:
        return Item(component=component, status="unreadable", wanted=wanted, note=str(found.get("error")))
    version = str(found["version"])
    why = why_not(wanted, version)
    return Item(component=component, status="mismatch" if why else "match", wanted=wanted, found=version, note=why)


def _same_python(wanted: str, found: str) -> str | None:
    """``3.11`` stands for every 3.11.x."""
    parts = wanted.split(".")
    return None if found.split(".")[: len(parts)] == parts else "another Python"


def _same_release(wanted: str, found: str) -> str | None:
    return None if wanted.casefold() == found.casefold() else "another release"


def why_another_build(wanted: str, found: str) -> str | None:
    """Return None when a package's version is the wanted one, else why not.

    The part behind ``+`` names the build: 2.9.0+cpu, 2.9.0 and 2.9.0+cu128 are three different things, and so are
    0.18.0 and 0.18.0+empty (vLLM without kernels of its own).
    """
    (wanted_public, wanted_local), (found_public, found_local) = split_version(wanted), split_version(found)
    if wanted_public != found_public:
        return "another version"
    if wanted_local == found_local:
        return None
    return f"the same version, but {_build(found_local)} instead of {_build(wanted_local)}"


def split_version(version: str) -> tuple[str, str]:
    """Return the public and the local part of a version, normalised for comparison; the local part may be empty.

    Source: PEP 440: no difference of case, a leading v is ignored, separators in the local part are alike.
    """
    public, _, local = version.strip().lower().partition("+")
    return public.removeprefix("v"), re.sub(r"[-_]", ".", local)


def _build(local: str) -> str:
    return f"the build +{local}" if local else "the plain build"


def commit_in(version: str) -> str | None:
    """Return the abbreviated commit in a version such as ``0.1.dev1+g72dc68973.d20260729``; None without one.

    Fewer than 7 digits say too little and do not count.
    """
    found = (_LOCAL_COMMIT.fullmatch(part) for part in split_version(version)[1].split("."))
    return next((match[1] for match in found if match), None)


def _sources(wanted: VllmAscend, versions: Facts) -> list[Item]:
    """Judge vllm-ascend: what was built, and where the tree that runs stands now, when it is installed in place."""
    package = versions["packages"].get("vllm-ascend")
    tree = versions["editable"].get("vllm-ascend")
    items = [_built(wanted.commit, package, tree)]
    if tree is not None:
        items.append(_tree(wanted.commit, tree))
    elif package is not None and package.get("editable"):
        note = f"{package['editable']}, which it is installed from, does not exist"
        items.append(Item(component=TREE, status="missing", wanted=wanted.commit, note=note))
    return items


def _built(commit: str, package: Facts | None, tree: Facts | None) -> Item:
    item = _judged("vllm-ascend", commit, package, lambda _wanted, _found: None)
    if item.status != "match" or item.found is None:
        return item
    short = commit_in(item.found)
    if short is not None:
        if not commit.startswith(short):
            item.status, item.note = "mismatch", "it was built from another commit"
        return item
    if tree is None or "commit" not in tree:
        item.status, item.note = "unreadable", "its version names no commit, and it is not installed from a git tree"
    elif tree["commit"] != commit:
        item.status, item.note = "mismatch", f"its version names no commit; {tree['path']} stands at {tree['commit']}"
    else:
        item.note = f"its version names no commit; {tree['path']} stands there"
    return item


def _tree(commit: str, tree: Facts) -> Item:
    if "commit" not in tree:
        return Item(component=TREE, status="unreadable", wanted=commit, note=str(tree.get("error")))
    changed = f", {tree['changes']} uncommitted changes" if tree["dirty"] else ""
    if tree["commit"] is None:
        return Item(component=TREE, status="missing", wanted=commit, note=f"{tree['path']} has no commit")
    status: Status = "match" if tree["commit"] == commit else "mismatch"
    return Item(component=TREE, status=status, wanted=commit, found=tree["commit"], note=f"{tree['path']}{changed}")
