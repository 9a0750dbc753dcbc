"""Ids have one form, and the state directory is found the same way from everywhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vaws_mcp.store.ids import SLUG, is_id, is_task_id, new_id, new_task_id
from vaws_mcp.store.statedir import find_state_dir


def git(folder: Path, *words: str) -> None:
    name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *name, "-C", str(folder), *words], check=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("kind", ["execution", "job", "run"])
def test_new_ids_are_well_formed_and_differ(kind: str) -> None:
    ids = {new_id(kind) for _ in range(100)}
    assert len(ids) == 100
    assert all(is_id(text) and text.startswith(f"{kind}-") for text in ids)


def test_new_task_ids_are_well_formed() -> None:
    assert is_task_id(new_task_id("dsv4-decode"))


@pytest.mark.parametrize(
    "text", ["", "run", "../run-20260101T000000-00000000", "run-20260101T000000-00000000\n", "run-1"]
)
def test_what_is_no_id_is_not_taken_for_one(text: str) -> None:
    assert not is_id(text)


@pytest.mark.parametrize(
    "text", ["../x-20260101-abcdef", "x/y-20260101-abcdef", "x-20260101-abcdef\n", "-20260101-abcdef"]
)
def test_what_is_no_task_id_is_not_taken_for_one(text: str) -> None:
    assert not is_task_id(text)


@pytest.mark.parametrize(
    ("slug", "fits"), [("a", True), ("a" * 40, True), ("a" * 41, False), ("-a", False), ("A", False)]
)
def test_slugs(slug: str, fits: bool) -> None:
    assert bool(SLUG.fullmatch(slug)) == fits


def test_the_environment_names_the_directory_that_holds_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAWS_STATE_DIR", str(tmp_path / "here"))
    assert find_state_dir() == tmp_path / "here" / ".vaws-local"
    monkeypatch.setenv("VAWS_STATE_DIR", str(tmp_path / "here" / ".vaws-local"))
    assert find_state_dir() == tmp_path / "here" / ".vaws-local"
    assert not (tmp_path / "here").exists()


def test_without_a_repository_it_is_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VAWS_STATE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert find_state_dir() == tmp_path / ".vaws-local"


def test_linked_worktrees_share_the_directory_of_the_primary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VAWS_STATE_DIR", raising=False)
    primary, linked = tmp_path / "primary", tmp_path / "linked"
    git(tmp_path, "init", "-q", str(primary))
    git(primary, "commit", "-q", "--allow-empty", "-m", "x")
    git(primary, "worktree", "add", "-q", "--detach", str(linked))
    for folder in (primary, linked, linked / "deep"):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        assert find_state_dir() == primary / ".vaws-local"
