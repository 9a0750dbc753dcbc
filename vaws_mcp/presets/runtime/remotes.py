"""Whether a git remote is the repository that a profile means, however its address is written. Pure."""

import re

_SCP_LIKE = re.compile(r"^(?:[^@/:]+@)?(?P<host>[^/:]+):(?!//)(?P<path>.+)$")
_URL = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+)?/(?P<path>.+)$", re.IGNORECASE)


def canonical(address: str) -> str:
    """Return ``host/path`` of a remote's address without scheme, user, port and ``.git``; a local path stays one.

    Host and path are compared without case, as the usual forges do.
    """
    address = address.strip()
    match = _URL.match(address) or _SCP_LIKE.match(address)
    if match is None:
        return address.removeprefix("file://").rstrip("/").removesuffix(".git")
    path = match["path"].strip("/").removesuffix(".git").rstrip("/")
    return f"{match['host']}/{path}".lower()


def expected_remote(remotes: dict[str, str], wanted: tuple[str, ...]) -> str | None:
    """Return the name of the first remote that is one of the wanted repositories, or None."""
    known = {canonical(address) for address in wanted}
    return next((name for name, address in remotes.items() if canonical(address) in known), None)
