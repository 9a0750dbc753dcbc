"""``tree.receive``: objects that a tree lacks, as a pack. Files and refs stay as they are."""

from __future__ import annotations

import os
import re
import tempfile
from typing import IO, List

from ...refusal import Refusal, bad_request
from ...request import Answer, Request
from .. import environment
from ..atomic import replace_file
from .git import Git, failed
from .place import git_of, our_ref
from .snapshot import common_dir, is_populated

_SHA = re.compile(r"[0-9a-f]{40}")


def receive(request: Request) -> Answer:
    """Take a pack into the store of a tree or of one of its submodules, and make sure that the commit is whole.

    Params: repo; module, the submodule's path or ``""``; name, the submodule's name, for one that has to be made;
    commit; shallow, commits whose parents do not come along; pack, the path of the pack on this machine, or null when
    it is the body; ref, a ref of ours to set to the commit, or null.
    Raises: Refusal ``pack_incomplete``, or of git.
    """
    params = request.params
    commit = _sha(params.text("commit"))
    git = git_of(request, for_write=True)
    ref = our_ref(request, "ref") if params.optional_text("ref") else None
    module = params.optional_text("module") or ""
    if module:
        top = os.path.join(git.top, _inside(git.top, module))
        if not is_populated(top):
            _make_module(git.at(top), git.top, params.text("name"))
        git = git.at(top)
    _index_pack(git, request)
    add_shallow(git, [_sha(oid) for oid in params.texts("shallow")])
    ended = git.run("rev-list", "--quiet", "--objects", "--no-walk", commit)
    if ended.code != 0:
        refusal = failed(git.top, "rev-list", ended)
        refusal.code = "pack_incomplete"
        refusal.hint = "The objects that came are not whole; repeat the call."
        raise refusal
    if ref is not None:
        git.out("update-ref", ref, commit)
    return {"commit": commit, "tree": git.text("rev-parse", f"{commit}^{{tree}}")}, b""


def _sha(text: str) -> str:
    if not _SHA.fullmatch(text):
        raise bad_request(f"tree.receive: {text!r} is not the id of a commit")
    return text


def _inside(top: str, module: str) -> str:
    """Refuse a path that leads out of the tree, also through a link."""
    real = os.path.realpath(os.path.join(top, module))
    if not real.startswith(os.path.join(os.path.realpath(top), "")) or ".git" in module.split("/"):
        raise bad_request(f"tree.receive: {module!r} is no path of a submodule below {top}")
    return module


def _index_pack(git: Git, request: Request) -> None:
    path = request.params.optional_text("pack")
    if path is None:
        if request.body:
            with tempfile.TemporaryFile() as stream:
                stream.write(request.body)
                stream.seek(0)
                _index(git, stream)
        return
    if os.path.dirname(os.path.realpath(path)) != os.path.realpath(pack_folder()):
        raise bad_request(f"tree.receive: {path!r} is not in {pack_folder()}")
    try:
        with open(path, "rb") as stream:
            _index(git, stream)
    finally:
        os.unlink(path)


def pack_folder() -> str:
    """Return the folder that packs arrive in when they are too large for a request."""
    return os.path.join(environment.home(), ".vaws", "packs")


def _index(git: Git, stream: IO[bytes]) -> None:
    ended = git.run("index-pack", "--stdin", "--fix-thin", source=stream)
    if ended.code != 0:
        raise failed(git.top, "index-pack", ended)


def add_shallow(git: Git, oids: List[str]) -> None:
    """Note commits whose parents this repository lacks, as git does when it fetches from a shallow one."""
    missing = [oid for oid in oids if git.run("rev-list", "--quiet", "--max-count=2", oid).code != 0]
    if not missing:
        return
    path = os.path.join(common_dir(git.top), "shallow")
    lines: List[str] = []
    if os.path.exists(path):
        with open(path, encoding="ascii") as stream:
            lines = stream.read().split()
    text = "".join(f"{oid}\n" for oid in sorted({*lines, *missing}))
    replace_file(path, text.encode(), mode=0o644)


def _make_module(git: Git, outer: str, name: str) -> None:
    """Make the repository of a submodule that was never checked out here, where git itself would put it."""
    if ".." in name.split("/") or name.startswith(("/", "-")):
        raise bad_request(f"tree.receive: {name!r} is no name of a submodule")
    store = os.path.join(common_dir(outer), "modules", name)
    os.makedirs(git.top, exist_ok=True)
    if os.listdir(git.top):
        raise Refusal("would_overwrite", f"{git.top} is not empty, but no checkout of the submodule {name!r} either")
    os.makedirs(os.path.dirname(store), exist_ok=True)
    if os.path.isdir(store):
        replace_file(os.path.join(git.top, ".git"), os.fsencode(f"gitdir: {store}\n"), mode=0o644)
        return
    git.out("init", "--quiet", f"--separate-git-dir={store}")
    git.out("config", "core.worktree", os.path.relpath(git.top, store))
