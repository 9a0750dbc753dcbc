"""From what a person calls a state of the code to one commit."""

import re
from dataclasses import dataclass

from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.source.git import FETCH_TIMEOUT_S, git, git_text

REMOTES = ("upstream", "origin")
_PULL = re.compile(r"(?:pr:|#)(\d{1,9})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@{}^~+-]*")
_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Commit:
    """A resolved ref. ``remote`` is set when it was fetched; ``base`` is the merge base that ``base-of:`` asked for."""

    ref: str
    sha: str
    subject: str
    remote: str | None = None
    base_of: str | None = None


def check_ref(ref: str) -> None:
    """Refuse what cannot be a ref, before anything is contacted.

    Raises: Refused for an empty ref, an option, or characters git does not allow.
    """
    inner = ref.removeprefix("base-of:")
    malformed = ".." in inner or inner.endswith(".lock") or not _NAME.fullmatch(inner)
    if not _PULL.fullmatch(inner) and malformed:
        raise Refused(
            "ref_malformed",
            f"{ref!r} is not a ref",
            hint="A ref is a sha, a branch, a tag, pr:N, #N, or base-of:REF.",
        )


async def resolve_ref(endpoint: Endpoint, repo: str, ref: str) -> Commit:
    """Return the commit of a ref in a tree of the endpoint, fetched from ``upstream`` or ``origin`` when needed.

    Raises: Failure ``ref_unknown`` (layer caller) that names the ref, the tree and what was tried.
    """
    inner = ref.removeprefix("base-of:")
    sha, remote = await _find(endpoint, repo, inner)
    base_of = None
    if ref != inner:
        base_of, sha = sha, await _merge_base(endpoint, repo, sha)
    subject = await git_text(endpoint, repo, "log", "-1", "--format=%s", sha)
    return Commit(ref, sha, subject, remote, base_of)


async def _find(endpoint: Endpoint, repo: str, ref: str) -> tuple[str, str | None]:
    """Return (sha, remote it was fetched from or None)."""
    pull = _PULL.fullmatch(ref)
    remote = await _remote(endpoint, repo)
    if pull:
        source, target = f"refs/pull/{pull[1]}/head", f"refs/vaws/pull/{pull[1]}"
        return await _fetched(endpoint, repo, remote, f"+{source}:{target}", target, ref), remote
    names = [ref, *([f"refs/remotes/{remote}/{ref}"] if remote else [])]
    for name in names:
        answer = await git(endpoint, repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if answer.code == 0 and _SHA.fullmatch(answer.text):
            return answer.text, None
    target = f"refs/vaws/fetched/{ref.replace('@', '_').replace('{', '_').replace('}', '_')}"
    return await _fetched(endpoint, repo, remote, f"+{ref}:{target}", target, ref), remote


async def _remote(endpoint: Endpoint, repo: str) -> str | None:
    known = (await git_text(endpoint, repo, "remote")).split()
    return next((name for name in REMOTES if name in known), None)


async def _fetched(endpoint: Endpoint, repo: str, remote: str | None, spec: str, target: str, ref: str) -> str:
    if remote is None:
        raise _unknown(endpoint, repo, ref, "it is not there, and the tree has no remote upstream or origin")
    answer = await git(endpoint, repo, "fetch", "--quiet", "--no-tags", remote, spec, timeout_s=FETCH_TIMEOUT_S)
    if answer.code != 0:
        why = f"it is not there, and fetching it from {remote} failed: {answer.complaint}"
        raise _unknown(endpoint, repo, ref, why)
    return await git_text(endpoint, repo, "rev-parse", "--verify", "--end-of-options", f"{target}^{{commit}}")


def _unknown(endpoint: Endpoint, repo: str, ref: str, why: str) -> Failure:
    return Failure(
        "ref_unknown",
        f"cannot resolve {ref!r} in {repo} on {endpoint.config.address}: {why}",
        layer="caller",
        hint="Give a sha, branch or tag that the endpoint's tree or its remote has, pr:N, or base-of:REF.",
        retry_safe=True,
        phase="resolve",
    )


async def _merge_base(endpoint: Endpoint, repo: str, sha: str) -> str:
    """Return the merge base of a commit with the default branch of the remote."""
    remote = await _remote(endpoint, repo)
    names = [f"refs/remotes/{remote}/HEAD", f"refs/remotes/{remote}/main", f"refs/remotes/{remote}/master"]
    for name in [*(names if remote else []), "main", "master"]:
        answer = await git(endpoint, repo, "merge-base", name, sha)
        if answer.code == 0:
            return answer.text
    raise _unknown(endpoint, repo, f"base-of:{sha[:12]}", "there is no default branch with a common ancestor")
