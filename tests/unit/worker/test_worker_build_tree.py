"""Only generated, untracked artifacts inside the tree that is meant are ever named, and so removed."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from direct import request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vaws_mcp.presets.runtime.plan import PATTERNS, clean_steps
from vaws_mcp.worker.engine.build_tree import check_pattern, check_place, inspect
from vaws_mcp.worker.refusal import Refusal

EXAMPLES = int(os.environ.get("VAWS_TEST_TREES", "40"))
Facts = dict[str, Any]


def git(tree: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    return subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def make_tree(tree: Path) -> Path:
    write(tree / "vllm_ascend/__init__.py")
    write(tree / "vllm_ascend/_cann_ops_custom/.gitkeep")
    write(tree / ".gitignore", "build/\n*.so\n*.egg-info/\nvllm_ascend/_cann_ops_custom/*\n!.gitkeep\n")
    git(tree, "init", "-q", "-b", "main")
    git(tree, "remote", "add", "origin", "https://github.com/vllm-project/vllm-ascend")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "one")
    return tree


def look(tree: Path | str, patterns: tuple[str, ...] = PATTERNS) -> Facts:
    return inspect(request("build.inspect", {"repo": str(tree), "patterns": list(patterns)}, b""))[0]


def refusal(tree: Path | str, patterns: tuple[str, ...] = PATTERNS) -> str:
    with pytest.raises(Refusal) as caught:
        look(tree, patterns)
    assert caught.value.code == "repo_refused"
    return caught.value.message


def clean(facts: Facts) -> None:
    for step in clean_steps(facts):
        subprocess.run(step.argv, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path.resolve() / "work" / "vllm-ascend")


def test_what_a_build_leaves_is_found_and_nothing_else(tree: Path) -> None:
    generated = ["build/temp/a.o", "vllm_ascend.egg-info/PKG-INFO", "csrc/build/CMakeCache.txt", "csrc/build_out/x"]
    generated += ["vllm_ascend/_build_info.py", "vllm_ascend/vllm_ascend_C.cpython-311.so", "vllm_ascend/libx.so"]
    generated += ["vllm_ascend/_cann_ops_custom/vendors/custom_transformer/op.o", "vllm_ascend/lib/liby.so"]
    mine = ["notes.txt", "vllm_ascend/draft.py", "csrc/draft.cpp", "other/build/x", "vllm_ascend/lib/notes", "build.sh"]
    for name in [*generated, *mine]:
        write(tree / name)
    facts = look(tree)
    assert [artifact["path"] for artifact in facts["artifacts"]] == [
        "build",
        "csrc/build",
        "csrc/build_out",
        "vllm_ascend.egg-info",
        "vllm_ascend/_build_info.py",
        "vllm_ascend/_cann_ops_custom/vendors",
        "vllm_ascend/lib/liby.so",
        "vllm_ascend/libx.so",
        "vllm_ascend/vllm_ascend_C.cpython-311.so",
    ]
    assert facts["commit"] == git(tree, "rev-parse", "HEAD")
    assert facts["remotes"] == {"origin": "https://github.com/vllm-project/vllm-ascend"}
    clean(facts)
    assert not any((tree / name).exists() for name in generated)
    assert all((tree / name).exists() for name in mine)
    assert (tree / "vllm_ascend/_cann_ops_custom/.gitkeep").exists()
    assert look(tree)["artifacts"] == []


def test_a_tracked_file_among_artifacts_stays(tree: Path) -> None:
    write(tree / "build/keep.txt")
    git(tree, "add", "--force", "build/keep.txt")
    write(tree / "build/temp.o")
    assert [artifact["path"] for artifact in look(tree)["artifacts"]] == ["build/temp.o"]
    clean(look(tree))
    assert (tree / "build/keep.txt").exists()


def test_a_repository_that_a_build_has_fetched_goes_with_it(tree: Path) -> None:
    write(tree / "build/_deps/x/file")
    git(tree / "build/_deps/x", "init", "-q")
    assert [artifact["path"] for artifact in look(tree)["artifacts"]] == ["build"]
    clean(look(tree))
    assert not (tree / "build").exists()


@pytest.mark.parametrize(
    "place", ["/", "//", "/usr", "/etc/", "/tmp", "relative", "/a/../b", "/a/./b", "", "~", "/nowhere/at/all"]
)
def test_places_that_can_be_no_tree_are_refused(place: str) -> None:
    with pytest.raises(Refusal, match=r"not cleaned|non-empty"):
        look(place)


def test_the_home_directory_and_those_above_it_are_refused(tree: Path) -> None:
    for home in (tree, tree / "home"):
        home.mkdir(exist_ok=True)
        with pytest.raises(Refusal, match="the home directory is in it"):
            check_place(str(tree), str(home))


def test_a_link_to_a_tree_is_refused(tree: Path) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    assert f"lies at {tree}" in refusal(link)
    (tree.parent.parent / "up").symlink_to(tree.parent)
    assert f"lies at {tree}" in refusal(tree.parent.parent / "up" / "vllm-ascend")


def test_what_is_no_git_tree_is_refused(tree: Path, tmp_path: Path) -> None:
    assert "not the top directory" in refusal(tree / "vllm_ascend")
    (tmp_path / "plain").mkdir()
    assert "not the top directory" in refusal(tmp_path.resolve() / "plain")
    (tmp_path / "plain/.git").mkdir()
    assert "git" in refusal(tmp_path.resolve() / "plain")


@pytest.mark.parametrize("name", ["build", "vllm_ascend/libx.so"])
def test_an_artifact_that_leads_out_of_the_tree_is_refused(tree: Path, name: str) -> None:
    outside = tree.parent / "outside"
    write(outside / "precious")
    (tree / name).symlink_to(outside)
    assert "leads out of the tree" in refusal(tree)
    assert (outside / "precious").exists()


def test_a_folder_of_the_tree_that_leads_out_is_not_entered(tree: Path) -> None:
    outside = tree.parent / "outside"
    write(outside / "build/precious")
    (tree / "csrc").symlink_to(outside)
    clean(look(tree))
    assert (outside / "build/precious").exists()


def test_nothing_is_started_that_the_tree_names(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = write(tmp_path / "hook", f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    hook.chmod(0o755)
    git(tree, "config", "core.fsmonitor", str(hook))
    write(tree / "build/x")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    facts = look(tree)
    monkeypatch.delenv("GIT_DIR")
    clean(facts)
    assert not (tree / "build").exists()
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "pattern", ["", "/etc", "../x", "a/../b", "*", "**", "**/x", "a//b", ".", "x/", ".git", "x/**"]
)
def test_patterns_that_are_too_wide_or_lead_out_are_refused(pattern: str) -> None:
    with pytest.raises(Refusal):
        check_pattern(pattern)


@given(st.text(alphabet="/.~ab", max_size=12))
def test_only_real_absolute_git_trees_are_accepted(place: str) -> None:
    with pytest.raises(Refusal):
        check_place(place, "/root")


NAMES = (
    "build",
    "csrc",
    "vllm_ascend",
    "lib",
    "x.so",
    "libx.so",
    "vllm_ascend_C.so",
    "a.egg-info",
    "notes",
    "[b]",
    "-rf",
)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
kinds = st.sampled_from(["tracked", "untracked", "link out", "link in", "repository"])


def grow(tree: Path, outside: Path, path: str, kind: str) -> None:
    """Put something into the tree where there is room for it."""
    place = tree / path
    if os.path.lexists(place) or any(part.is_symlink() or part.is_file() for part in place.parents):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link out":
        place.symlink_to(outside)
    elif kind == "link in":
        place.symlink_to(tree / "vllm_ascend")
    elif kind == "repository":
        write(place / "file")
        git(place, "init", "-q")
    else:
        write(place)
        if kind == "tracked":
            git(tree, "add", "--force", "--", path)


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if ".git" not in path.parts}


def accepted(tree: Path) -> Facts | None:
    try:
        return look(tree)
    except Refusal as refused:
        return None if refused.code == "repo_refused" else pytest.fail(refused.message)


def is_artifact(name: str) -> bool:
    """Say by other means than git whether a path is one of the patterns, or below one."""
    parts = name.split("/")
    heads = [parts[: count + 1] for count in range(len(parts))]
    return any(
        len(head) == len(pattern.split("/")) and all(map(fnmatch.fnmatchcase, head, pattern.split("/")))
        for head in heads
        for pattern in PATTERNS
    )


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(paths, kinds), max_size=8))
def test_whatever_lies_in_a_tree_only_untracked_artifacts_go(entries: list[tuple[str, str]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="vaws-tree-")).resolve()
    try:
        tree, outside = make_tree(folder / "tree"), folder / "outside"
        write(outside / "build/precious")
        write(outside / "libx.so")
        for path, kind in entries:
            grow(tree, outside, path, kind)
        tracked = set(git(tree, "ls-files").splitlines())
        before = everything(tree)
        facts = accepted(tree)
        if facts is None:
            assert everything(tree) == before
            return
        clean(facts)
        gone = before - everything(tree)
        assert {name for name in gone if not is_artifact(name)} == set()
        assert all(os.path.lexists(tree / name) for name in tracked if not name.startswith('"'))
        assert everything(outside) == {"build", "build/precious", "libx.so"}
        assert look(tree)["artifacts"] == []
    finally:
        shutil.rmtree(folder)
