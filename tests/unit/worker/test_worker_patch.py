from __future__ import annotations

import errno
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from direct import contents, patch_tree
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_client import Client, Start, WorkerError

from vaws_mcp.worker.engine import transaction
from vaws_mcp.worker.engine.patch_begin import read_begin
from vaws_mcp.worker.engine.patch_unified import read_unified
from vaws_mcp.worker.refusal import Refusal

FILE = b"".join(b"line %d\n" % number for number in range(1, 21))


def begin(*lines: str) -> bytes:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""]).encode()


def refused(folder: Path, text: bytes, **params: Any) -> Refusal:
    before = contents(folder)
    with pytest.raises(Refusal) as caught:
        patch_tree(folder, text, **params)
    assert contents(folder) == before
    return caught.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f").write_bytes(FILE)
    return tmp_path / "t"


def hunk(line: int, *lines: str, name: str = "f") -> bytes:
    old = sum(text[0] in " -" for text in lines)
    new = sum(text[0] in " +" for text in lines)
    head = f"--- a/{name}\n+++ b/{name}\n@@ -{line},{old} +{line},{new} @@\n"
    return head.encode() + "".join(text + "\n" for text in lines).encode()


def test_a_hunk_at_its_line_is_applied_without_an_offset(folder: Path) -> None:
    result = patch_tree(folder, hunk(3, " line 3", "-line 4", "+LINE 4", " line 5"))
    assert (folder / "f").read_bytes() == FILE.replace(b"line 4\n", b"LINE 4\n")
    [file] = result["files"]
    assert (file["action"], file["offsets"], file["hunks"]) == ("update", [], 1)


def test_a_hunk_at_the_only_other_place_is_applied_and_says_how_far(folder: Path) -> None:
    patch = hunk(3, " line 9", "-line 10", "+LINE 10") + b"@@ -14 +14 @@\n-line 20\n+LINE 20\n"
    result = patch_tree(folder, patch)
    assert (folder / "f").read_bytes() == FILE.replace(b"line 10\n", b"LINE 10\n").replace(b"line 20\n", b"LINE 20\n")
    assert result["files"][0]["offsets"] == [{"hunk": 1, "lines": 6}, {"hunk": 2, "lines": 6}]


def test_a_hunk_that_fits_in_two_other_places_is_refused(folder: Path) -> None:
    (folder / "f").write_bytes(b"x\na\nb\ny\na\nb\n")
    refusal = refused(folder, hunk(4, " a", "-b", "+c"))
    assert refusal.code == "patch_ambiguous"
    assert "lines 2, 5" in refusal.message


def test_a_hunk_moves_as_the_hunk_before_it_did_where_it_would_fit_twice(folder: Path) -> None:
    (folder / "f").write_bytes(b"new 1\nnew 2\nhead\na\na\na\na\n")
    patch = b"--- f\n+++ f\n@@ -1 +1 @@\n-head\n+HEAD\n@@ -3 +3 @@\n-a\n+A\n"
    patch_tree(folder, patch)
    assert (folder / "f").read_bytes() == b"new 1\nnew 2\nHEAD\na\nA\na\na\n"


def test_a_mismatch_shows_both_sides(folder: Path) -> None:
    refusal = refused(folder, hunk(3, " line 3", "-line four", "+x", " line 5"))
    assert refusal.code == "patch_mismatch"
    assert "f: hunk 1 (line 3 of the patch) does not match: line 4 differs" in refusal.message
    assert "expected from line 3 on:\n  | line 3\n  | line four\n  | line 5\n" in refusal.message
    assert "found there:\n  | line 3\n  | line 4\n  | line 5" in refusal.message
    assert refusal.details is not None
    assert refusal.details["expected_lines"][1] == "line four"


def test_a_mismatch_of_the_last_line_end_is_said(folder: Path) -> None:
    (folder / "f").write_bytes(b"only")
    message = refused(folder, hunk(1, "-only", "+x")).message
    assert "  | only\nfound there:\n  | only (without a line end)" in message
    assert "the file ends before" in refused(folder, hunk(90, "-only", "+x")).message


def test_a_plain_diff_behind_a_header_of_git_is_a_file_of_its_own(folder: Path) -> None:
    (folder / "g").write_bytes(FILE)
    rename = b"diff --git a/g b/h\nsimilarity index 100%\nrename from g\nrename to h\n"
    result = patch_tree(folder, rename + hunk(1, "-line 1", "+x"))
    assert [file["action"] for file in result["files"]] == ["move", "update"]
    assert ((folder / "h").read_bytes(), (folder / "f").read_bytes()) == (FILE, FILE.replace(b"line 1\n", b"x\n"))


def test_a_later_part_sees_what_an_earlier_part_made(folder: Path) -> None:
    new = b"--- /dev/null\n+++ b/sub/new\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    patch = new + hunk(1, " one", "-two", "+2", name="sub/new") + hunk(2, "-2", "+zwei", name="sub/new")
    result = patch_tree(folder, patch)
    assert (folder / "sub" / "new").read_bytes() == b"one\nzwei\n"
    assert [file["action"] for file in result["files"]] == ["add", "update", "update"]
    assert result["files"][-1]["sha256"] != result["files"][0]["sha256"]


def test_a_patch_with_one_bad_part_changes_nothing(folder: Path) -> None:
    (folder / "g").write_bytes(b"g\n")
    add = b"--- /dev/null\n+++ b/deep/new\n@@ -0,0 +1 @@\n+x\n"
    delete = b"--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
    good = hunk(3, "-line 3", "+x")
    assert refused(folder, good + add + delete + hunk(5, "-no", "+x", name="f")).code == "patch_mismatch"
    assert refused(folder, good + add + hunk(1, "-x", "+y", name="missing")).code == "not_found"
    assert refused(folder, good + b"--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n").code == "exists"
    assert not (folder / "deep").exists()


def test_a_deletion_must_delete_everything(folder: Path) -> None:
    patch = b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n"
    assert "more lines" in refused(folder, patch).message
    git = b"diff --git a/f b/f\ndeleted file mode 100644\n"
    assert "more lines" in refused(folder, git).message


def test_modes_are_set_and_kept(folder: Path) -> None:
    (folder / "f").chmod(0o640)
    patch_tree(folder, b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n" + hunk(1, "-line 1", "+x"))
    assert (folder / "f").stat().st_mode & 0o7777 == 0o750
    patch_tree(folder, b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n")
    assert (folder / "g").stat().st_mode & 0o7777 == 0o750
    patch_tree(folder, b"diff --git a/g b/g\nold mode 100755\nnew mode 100644\n")
    assert (folder / "g").stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        (b"nothing here", "no file header"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "without the --- and +++ lines"),
        (hunk(1, "-line 1", "+x").replace(b"-1,1", b"-1,2"), "ends early"),
        (
            hunk(1, "-line 1", "+x").replace(b"-1,1", b"-1,2") + hunk(1, "-x", "+y"),
            "more lines than the header of hunk 1 counts",
        ),
        (hunk(1, "-line 1", "+x", "+y").replace(b"+1,2", b"+1,1"), "more lines than the header of hunk 1 counts"),
        (hunk(1, "-line 1", "+x", name="../f"), "may not lead upwards"),
        (hunk(1, "-line 1", "+x") + b"@@ nonsense @@\n", "cannot be read"),
        (b"diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "symbolic links"),
        (b"diff --git a/f b/f\nindex 1..2\nBinary files a/f and b/f differ\n", "binary patches"),
        (b"diff --git a/f b/f\nindex 1..2\nGIT binary patch\n", "binary patches"),
        (b"--- a/f\n+++ b/f\n", "no hunk"),
        (b"--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n", "a file name is missing"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n", "ends early"),
        (begin("*** Update File: f"), "there is no hunk"),
        (begin("*** Update File: f", "@@", "*** Update File: g", "-a"), "has no lines"),
        (begin("*** Update File: f", " same"), "changes nothing"),
        (begin("*** Add File: n", "no plus"), "begins with +"),
        (begin("*** Add File: ../n", "+x"), "may not lead upwards"),
        (begin("+x"), "should be *** Add File"),
        (begin(), "no file is named"),
        (b"*** Begin Patch\n*** Add File: n\n+x\n", "the last line should be"),
    ],
)
def test_what_is_no_patch_is_refused_with_its_line(folder: Path, patch: bytes, problem: str) -> None:
    refusal = refused(folder, patch)
    assert refusal.code == "bad_patch"
    assert refusal.message.startswith("line ")
    assert problem in refusal.message


def test_a_link_is_updated_through_but_neither_deleted_nor_replaced(folder: Path) -> None:
    (folder / "link").symlink_to("f")
    patch_tree(folder, hunk(1, "-line 1", "+x", name="link"))
    assert (folder / "link").is_symlink()
    assert (folder / "f").read_bytes().startswith(b"x\n")
    assert refused(folder, begin("*** Delete File: link")).code == "is_symlink"
    (folder / "dangling").symlink_to("nowhere")
    assert refused(folder, begin("*** Add File: dangling", "+x")).code == "is_symlink"


def test_a_file_cannot_be_a_folder_too(folder: Path) -> None:
    assert refused(folder, begin("*** Add File: f/x", "+x")).code == "not_a_directory"
    assert refused(folder, begin("*** Add File: n", "+x", "*** Add File: n/x", "+x")).code == "bad_patch"


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    result = patch_tree(folder, hunk(1, "-line 1", "+x") + hunk(1, "-x", "+y"), dry_run=True)
    assert [file["action"] for file in result["files"]] == ["update", "update"]
    assert contents(folder) == before


def test_a_diff_without_carriage_returns_fits_a_crlf_file(folder: Path) -> None:
    (folder / "f").write_bytes(FILE.replace(b"\n", b"\r\n"))
    result = patch_tree(folder, hunk(3, " line 3", "-line 4", "+LINE 4"))
    assert (folder / "f").read_bytes() == FILE.replace(b"line 4\n", b"LINE 4\n").replace(b"\n", b"\r\n")
    assert result["files"][0]["crlf"] is True


def test_a_patch_that_came_with_crlf_line_ends_fits_a_plain_file(folder: Path) -> None:
    patch_tree(folder, hunk(3, " line 3", "-line 4", "+LINE 4").replace(b"\n", b"\r\n"))
    assert (folder / "f").read_bytes() == FILE.replace(b"line 4\n", b"LINE 4\n")


def test_the_begin_form_adds_deletes_moves_and_updates(folder: Path) -> None:
    (folder / "old").write_bytes(b"a\nb\n")
    (folder / "gone").write_bytes(b"x")
    (folder / "old").chmod(0o755)
    patch = begin(
        "*** Add File: sub/new.txt", "+first", "+", "+third",
        "*** Delete File: gone",
        "*** Update File: old", "*** Move to: moved", "@@", " a", "-b", "+B",
        "*** Update File: f", "@@ line 9", "-line 10", "+LINE 10",
        "@@", " line 19", "-line 20", "+end", "*** End of File",
        "*** Update File: sub/new.txt", " first", "-", "+second",
    )  # fmt: skip
    result = patch_tree(folder, patch)
    assert (folder / "sub" / "new.txt").read_bytes() == b"first\nsecond\nthird\n"
    assert not (folder / "gone").exists()
    assert not (folder / "old").exists()
    assert (folder / "moved").read_bytes() == b"a\nB\n"
    assert (folder / "moved").stat().st_mode & 0o777 == 0o755
    assert (folder / "f").read_bytes() == FILE.replace(b"line 10\n", b"LINE 10\n").replace(b"line 20\n", b"end\n")
    assert [file["action"] for file in result["files"]] == ["add", "delete", "move", "update", "update"]
    assert result["files"][2]["source"] == str(folder / "old")


SOURCE = b"class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"


def test_anchors_choose_between_equal_places(folder: Path) -> None:
    (folder / "f").write_bytes(SOURCE)
    plain = begin("*** Update File: f", "@@", "-        return 1", "+        return 2")
    refusal = refused(folder, plain)
    assert (refusal.code, "lines 3, 7" in refusal.message) == ("patch_ambiguous", True)
    assert refused(folder, plain.replace(b"@@", b"@@     def f(self):")).code == "patch_ambiguous"
    assert refused(folder, plain.replace(b"@@", b"@@ class C:")).code == "patch_mismatch"
    patch_tree(folder, plain.replace(b"@@", b"@@ class B:\n@@ def f(self):"))
    assert (folder / "f").read_bytes() == SOURCE[:-2] + b"2\n"


def test_a_last_line_without_an_end_stays_so_in_the_begin_form(folder: Path) -> None:
    (folder / "f").write_bytes(b"a\nb")
    patch_tree(folder, begin("*** Update File: f", " a", "-b", "+B"))
    assert (folder / "f").read_bytes() == b"a\nB"
    patch_tree(folder, begin("*** Update File: f", "+c"))
    assert (folder / "f").read_bytes() == b"a\nB\nc"
    patch_tree(folder, begin("*** Update File: f", "@@ a", "+a2"))
    assert (folder / "f").read_bytes() == b"a\na2\nB\nc"
    patch_tree(folder, begin("*** Update File: f", "-c"))
    assert (folder / "f").read_bytes() == b"a\na2\nB\n"


def test_the_begin_form_keeps_crlf(folder: Path) -> None:
    (folder / "f").write_bytes(b"a\r\nb\r\n")
    patch_tree(folder, begin("*** Update File: f", "-a", "+A", "+2", "@@", "+end"))
    assert (folder / "f").read_bytes() == b"A\r\n2\r\nb\r\nend\r\n"


def test_a_mismatch_in_the_begin_form_shows_the_most_similar_place(folder: Path) -> None:
    refusal = refused(folder, begin("*** Update File: f", " line 12", "-line thirteen", "+x"))
    assert refusal.code == "patch_mismatch"
    assert "  | line 12\n  | line thirteen\nfound there:\n  | line 12\n  | line 13" in refusal.message


def test_a_patch_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        patch_tree(tmp_path / "none", hunk(1, "-a", "+b"))
    assert caught.value.code == "not_a_directory"
    assert str(tmp_path / "none") in caught.value.message


FRAGMENTS = [
    *("--- a/f", "+++ b/f", "@@ -1 +1 @@", "-a", "+b", " c", "\\ No newline", ""),
    *("diff --git a/f b/f", "rename from f", "rename to g", "new file mode 100644"),
    *("*** Update File: f", "*** Add File: g", "*** Move to: h", "@@", "@@ x", "*** End of File"),
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12))
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    for read, text in ((read_unified, "\n".join(lines).encode()), (read_begin, begin(*lines))):
        try:
            assert read(text)
        except Refusal as refusal:
            assert refusal.code == "bad_patch"  # noqa: PT017 - both ends are right


def many(folder: Path, count: int) -> bytes:
    """Fill a folder with files of several lines, and return a patch that updates, deletes, moves and adds."""
    patch: list[bytes] = []
    for number in range(count):
        (folder / f"f{number}").write_bytes(FILE)
        if number % 4 == 0:
            patch.append(begin(f"*** Delete File: f{number}")[16:-14])
        elif number % 4 == 1:
            patch.append(begin(f"*** Update File: f{number}", f"*** Move to: sub/m{number}", "-line 7", "+x")[16:-14])
        else:
            patch.append(begin(f"*** Update File: f{number}", "-line 9", "+x")[16:-14])
        patch.append(begin(f"*** Add File: sub/n{number}", "+new", "+file")[16:-14])
    return b"*** Begin Patch\n" + b"".join(patch) + b"*** End Patch\n"


@pytest.mark.parametrize("at", [0, 1, 7, 15, 23, 28])
def test_a_failure_in_the_middle_restores_what_was_changed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    patch = many(folder, 16)
    (folder / "f2").chmod(0o751)
    before = contents(folder)
    inode = (folder / "f2").stat().st_ino
    publish, calls = transaction.publish, iter(range(10_000))

    def failing(step: Any) -> None:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        publish(step)

    monkeypatch.setattr(transaction, "publish", failing)
    with pytest.raises(Refusal) as caught:
        patch_tree(folder, patch)
    assert caught.value.code == "disk_full"
    assert str(folder) in caught.value.message
    assert contents(folder) == before
    assert not (folder / "sub").exists()
    assert (folder / "f2").stat().st_ino == inode
    monkeypatch.undo()
    patch_tree(folder, patch)
    assert not list(folder.rglob(".vaws-tmp-*"))


def test_files_that_cannot_be_restored_are_named_with_their_originals(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "g").write_bytes(FILE)
    real, calls = os.rename, iter(range(100))

    def failing(source: str, target: str) -> None:
        if next(calls) >= 1:
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(Refusal) as caught:
        patch_tree(folder, hunk(1, "-line 1", "+x") + hunk(1, "-line 1", "+x", name="g"))
    monkeypatch.undo()
    assert (caught.value.code, caught.value.retry_safe) == ("rollback_failed", False)
    [original] = folder.glob(".vaws-tmp-*.old")
    assert str(original) in caught.value.message
    assert original.read_bytes() == FILE
    assert (folder / "g").read_bytes() == FILE


def test_where_there_are_no_hard_links_patches_work_and_roll_back_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = many(folder, 8)
    before = contents(folder)

    def no_links(*_args: Any, **_keys: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    publish, calls = transaction.publish, iter(range(100))

    def failing(step: Any) -> None:
        if next(calls) == 9:
            raise OSError(errno.EIO, "Input/output error")
        publish(step)

    with monkeypatch.context() as inner:
        inner.setattr(transaction, "publish", failing)
        with pytest.raises(Refusal):
            patch_tree(folder, patch)
    assert contents(folder) == before
    patch_tree(folder, patch)
    assert (folder / "sub" / "n3").read_bytes() == b"new\nfile\n"


def test_a_worker_that_is_killed_leaves_each_file_old_or_new(start: Start, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    seen: list[int] = []
    for attempt in range(16):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        patch = many(folder, 60)
        client = start()
        client.start("patch", {"cwd": str(folder)}, patch)
        if attempt % 4:
            wait_for(folder / "sub" / "n0")  # the first file that appears: now they are being renamed
            time.sleep(chance.uniform(0, 0.003))
        else:
            time.sleep(chance.uniform(0, 0.1))
        os.kill(client.process.pid, signal.SIGKILL)
        client.process.wait(10)
        seen.append(sum(check(folder, number) for number in range(60)))
    assert any(0 < changed < 60 for changed in seen), seen


def wait_for(path: Path) -> None:
    limit = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < limit
        time.sleep(0.0002)


def check(folder: Path, number: int) -> bool:
    """Assert that each file of ``many`` is old or new; tell whether the patched one is new."""
    old = folder / f"f{number}"
    added = folder / "sub" / f"n{number}"
    if added.exists():
        assert added.read_bytes() == b"new\nfile\n"
    if number % 4 == 0:
        assert not old.exists() or old.read_bytes() == FILE
        return not old.exists()
    if number % 4 == 1:
        moved, body = folder / "sub" / f"m{number}", FILE.replace(b"line 7\n", b"x\n")
        assert moved.exists() or old.exists()
        assert not moved.exists() or moved.read_bytes() == body
        assert not old.exists() or old.read_bytes() == FILE
        return moved.exists()
    assert old.read_bytes() in (FILE, FILE.replace(b"line 9\n", b"x\n"))
    return old.read_bytes() != FILE


def test_a_cancelled_patch_changes_nothing_or_everything(worker: Client, tmp_path: Path) -> None:
    patch = many(tmp_path, 60)
    before = contents(tmp_path)
    number = worker.start("patch", {"cwd": str(tmp_path)}, patch)
    worker.send({"id": number, "cancel": True})
    try:
        worker.finish(number)
    except WorkerError as error:
        assert error.code == "cancelled"  # noqa: PT017 - both ends are right
        assert contents(tmp_path) == before
        assert not list(tmp_path.rglob(".vaws-tmp-*"))
    else:
        assert (tmp_path / "sub" / "n3").exists()
