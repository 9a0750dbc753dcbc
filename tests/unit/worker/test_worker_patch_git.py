"""Patches that git and difflib make, applied here and compared with the tree that they were made from."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from direct import contents, patch_tree
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from vaws_mcp.worker.refusal import Refusal

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAMES = ["a", "b b", "dir/c", "dir/déjà", "dir/sub/-d", 'q"uo\\te', "tab\there", "new\nline", "a b/a b"]
LINES = st.sampled_from(
    [b"one\n", b"two\n", b"three\n", b"\n", b"crlf\r\n", b"\xff\xfe\n", b"-- \n", b"+++ x\n", b"\\ n\n"]
)
BODIES = st.tuples(st.lists(LINES, max_size=14), st.sampled_from([b"", b"end"])).map(
    lambda pair: b"".join([*pair[0], pair[1]])
)
FILES = st.dictionaries(st.sampled_from(NAMES), st.tuples(BODIES, st.booleans()), max_size=5)
Tree = dict[str, tuple[bytes, bool]]


def git(folder: Path, *words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ["git", *words], cwd=folder, input=stdin, capture_output=True, env=env, timeout=30, check=False
    )
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def write_tree(folder: Path, tree: Tree) -> None:
    folder.mkdir(exist_ok=True)
    for name, (body, executable) in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        path.chmod(0o755 if executable else 0o644)


def read_tree(folder: Path) -> Tree:
    return {name: (body, bool(mode & 0o100)) for name, (body, mode) in contents(folder).items() if name[:5] != ".git/"}


@contextmanager
def trees(old: Tree, new: Tree, *flags: str) -> Generator[tuple[Path, bytes]]:
    """Give a folder with the old tree and the patch from it to the new one, which git makes."""
    with tempfile.TemporaryDirectory() as name:
        folder, repository = Path(name) / "old", Path(name) / "repository"
        ids: list[str] = []
        for tree in (old, new):
            write_tree(repository, tree)
            git(repository, "init", "-q")
            git(repository, "-c", "core.autocrlf=false", "add", "-A")
            code, out, error = git(repository, "write-tree")
            assert code == 0, error
            ids.append(out.decode().strip())
            shutil.rmtree(repository / ".git" / "index", ignore_errors=True)
            for path in list(repository.iterdir()):
                if path.name != ".git":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        code, patch, error = git(repository, "diff", "--text", *flags, *ids)
        assert code == 0, error
        write_tree(folder, old)
        yield folder, patch


def is_possible(tree: Tree) -> bool:
    """No name is a file and a folder at once."""
    return not any(one != two and two.startswith(one + "/") for one in tree for two in tree)


@given(
    old=FILES,
    new=FILES,
    flags=st.sampled_from([(), ("-M10%",), ("-C", "--find-copies-harder"), ("-U0",), ("--no-prefix",)]),
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_patch_of_git_gives_the_tree_that_it_was_made_from(old: Tree, new: Tree, flags: tuple[str, ...]) -> None:
    assume(old != new and is_possible({**old, **new}))
    with trees(old, new, *flags) as (folder, patch):
        patch_tree(folder, patch)
        assert read_tree(folder) == new
        assert not list(folder.rglob(".vaws-tmp-*"))


@given(old=FILES, new=FILES, harm=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_refused_patch_leaves_every_file_as_it_was_and_git_refuses_it_too(
    old: Tree, new: Tree, harm: st.DataObject
) -> None:
    assume(old and old != new and is_possible({**old, **new}))
    with trees(old, new, "--no-renames") as (folder, patch):
        victim = harm.draw(st.sampled_from(sorted(old)))
        changed = harm.draw(BODIES)
        (folder / victim).write_bytes(changed)
        before = contents(folder)
        git_code, _, told = git(folder, "apply", "--check", "-v", "--whitespace=nowarn", "-", stdin=patch)
        try:
            result = patch_tree(folder, patch)
        except Refusal:
            assert contents(folder) == before
            assert not list(folder.rglob(".vaws-tmp-*"))
            assert git_code != 0 or "offset" in told, "git takes this patch exactly"
            return
        kept = {name: found for name, found in read_tree(folder).items() if name != victim}
        assert kept == {name: found for name, found in new.items() if name != victim}
        if git_code == 0 and "offset" not in told:
            assert not any(file["offsets"] for file in result["files"])


@given(old=BODIES, new=BODIES, context=st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_a_plain_diff_gives_the_new_contents(old: bytes, new: bytes, context: int) -> None:
    assume(old and new and old != new)
    sides = [[line + b"\n" for line in body.removesuffix(b"end").split(b"\n")[:-1]] for body in (old, new)]
    for body, side in zip((old, new), sides, strict=True):
        if body.endswith(b"end"):
            side.append(b"end")
    parts: list[bytes] = []
    names = (b"f.orig", b"f", b"a time", b"later")
    for line in difflib.diff_bytes(difflib.unified_diff, sides[0], sides[1], *names, context):
        parts.append(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n")
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "f").write_bytes(old)
        result = patch_tree(Path(name), b"".join(parts))
        assert (Path(name) / "f").read_bytes() == new
        assert result["files"][0]["offsets"] == []


def test_a_mail_with_a_patch_is_read_around_its_text(tmp_path: Path) -> None:
    write_tree(tmp_path / "r", {"f": (b"1\n2\n3\n", False)})
    git(tmp_path / "r", "init", "-q")
    who = ["-c", "user.name=N", "-c", "user.email=n@example.org"]
    git(tmp_path / "r", *who, "add", "-A")
    git(tmp_path / "r", *who, "commit", "-qm", "one")
    (tmp_path / "r" / "f").write_bytes(b"1\n2b\n3\n")
    git(tmp_path / "r", *who, "commit", "-qam", "two\n\n- a list\n+ of things")
    code, mail, _ = git(tmp_path / "r", "format-patch", "-1", "--stdout")
    assert code == 0
    write_tree(tmp_path / "t", {"f": (b"1\n2\n3\n", False)})
    patch_tree(tmp_path / "t", mail)
    assert (tmp_path / "t" / "f").read_bytes() == b"1\n2b\n3\n"
