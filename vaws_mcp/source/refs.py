"""From what a person calls a state of the code to one commit."""

import re
from dataclasses import dataclass

from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.source.fetching import Laptop, fetch_for, remote_of
from vaws_mcp.source.git import FETCH_TIMEOUT_S, git, git_text

_PULL = re.compile(r"(?:pr:|#)(\d{1,9})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@{}^~+-]*")
_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Commit:
    """A resolved ref. ``remote`` and ``fetched_by`` (endpoint or laptop) are set when it was fetched.

    ``base_of`` is the commit whose merge base ``base-of:`` asked for. ``merge_base`` is the commit's own one with the
    default branch of the remote, None when there is none.
    """

    ref: str
    sha: str
    subject: str
    remote: str | None = None
    base_of: str | None = None
    merge_base: str | None = None
    fetched_by: str | None = None


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


@dataclass(frozen=True)
class _Found:
    sha: str
    remote: str | None = None
    by: str | None = None


async def resolve_ref(endpoint: Endpoint, repo: str, ref: str, laptop: Laptop | None = None) -> Commit:
    """Return the commit of a ref in a tree of the endpoint, fetched from ``upstream`` or ``origin`` when needed.

    What the endpoint cannot fetch is fetched by the local tree of ``laptop``, when one is given, and sent there.

    Raises: Failure ``ref_unknown`` (layer caller) that names the ref, the tree and what was tried.
    """
    inner = ref.removeprefix("base-of:")
    found = await _find(endpoint, repo, inner, laptop)
    sha, base_of = found.sha, None
    merge_base = await _merge_base(endpoint, repo, sha)
    if ref != inner:
        if merge_base is None:
            raise _unknown(endpoint, repo, ref, "there is no default branch with a common ancestor")
        base_of, sha = sha, merge_base
    subject = await git_text(endpoint, repo, "log", "-1", "--format=%s", sha)
    return Commit(ref, sha, subject, found.remote, base_of, merge_base, found.by)


async def _find(endpoint: Endpoint, repo: str, ref: str, laptop: Laptop | None) -> _Found:
    pull = _PULL.fullmatch(ref)
    remote = remote_of((await git_text(endpoint, repo, "remote")).split())
    if pull:
        name, target = f"refs/pull/{pull[1]}/head", f"refs/vaws/pull/{pull[1]}"
    else:
        found = await _known(endpoint, repo, ref, remote)
        if found is not None:
            return found
        name, target = ref, f"refs/vaws/fetched/{ref.replace('@', '_').replace('{', '_').replace('}', '_')}"
    try:
        sha = await _fetched(endpoint, repo, remote, f"+{name}:{target}", target, ref)
        return _Found(sha, remote, "endpoint")
    except Failure as failure:
        if failure.code != "ref_unknown" or laptop is None:
            raise
        return await _by_laptop(laptop, endpoint, repo, name, target, failure)


async def _known(endpoint: Endpoint, repo: str, ref: str, remote: str | None) -> _Found | None:
    """Return what the tree itself has under a name."""
    for name in [ref, *([f"refs/remotes/{remote}/{ref}"] if remote else [])]:
        answer = await git(endpoint, repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if answer.code == 0 and _SHA.fullmatch(answer.text):
            return _Found(answer.text)
    return None


async def _by_laptop(laptop: Laptop, endpoint: Endpoint, repo: str, name: str, target: str, failure: Failure) -> _Found:
    try:
        fetched = await fetch_for(laptop, endpoint, repo, name, target)
    except Failure as local:
        if local.layer != "local":
            raise
        failure.message += f"; fetching it on this machine in {laptop.source} failed too: {local.message}"
        raise failure from None
    return _Found(fetched.sha, fetched.remote, "laptop")


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


async def _merge_base(endpoint: Endpoint, repo: str, sha: str) -> str | None:
    """Return the merge base of a commit with the default branch of the remote, None when there is none."""
    remote = remote_of((await git_text(endpoint, repo, "remote")).split())
    names = [f"refs/remotes/{remote}/HEAD", f"refs/remotes/{remote}/main", f"refs/remotes/{remote}/master"]
    for name in [*(names if remote else []), "main", "master"]:
        answer = await git(endpoint, repo, "merge-base", name, sha)
        if answer.code == 0:
            return answer.text
    return None
