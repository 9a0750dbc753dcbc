"""Which tree a request is about, and what may be written in it."""

from __future__ import annotations

import os

from ...refusal import bad_request
from ...request import Request
from .. import environment
from ..confine import confined
from .git import Git

REFS = "refs/vaws/"


def git_of(request: Request, *, for_write: bool, cancellable: bool = True) -> Git:
    """Return git in the tree that a request names as ``repo``, when the endpoint's policy allows it there.

    Not ``cancellable``: a command that changes files is not ended halfway, only by its own bound.

    Raises: Refusal of the policy.
    """
    given = os.path.expanduser(request.params.text("repo"))
    confined(request, given, for_write=for_write)
    base = environment.base_environment()
    return Git(given, base, request.check) if cancellable else Git(given, base)


def our_ref(request: Request, name: str) -> str:
    """Return the parameter ``name``, a full name of a ref of ours.

    Raises: Refusal ``bad_params`` for any other ref: only ours are ever moved.
    """
    ref = request.params.text(name)
    parts = ref.split("/")
    if not ref.startswith(REFS) or any(not part or part.startswith((".", "-")) for part in parts):
        raise bad_request(f"{request.method}: {name} must be below {REFS}, not {ref!r}")
    return ref
