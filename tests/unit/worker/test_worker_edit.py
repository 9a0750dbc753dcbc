from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from direct import edit_file, edit_params
from hypothesis import given, settings
from hypothesis import strategies as st
from worker_client import Client, WorkerError

from vaws_mcp.worker.engine.edit import Edit, apply_edit
from vaws_mcp.worker.engine.lines import WHOLE_FILE_BYTES
from vaws_mcp.worker.engine.preview import preview
from vaws_mcp.worker.engine.text import as_crlf, is_crlf
from vaws_mcp.worker.refusal import Refusal

PIECES = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r\n", b"\r", b"\xff", b"\xc3\xa9", b"\0", b" "]), max_size=30)
BYTES = PIECES.map(b"".join)


def refused(path: Path, *steps: Any, **params: Any) -> Refusal:
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(Refusal) as caught:
        edit_file(path, *steps, **params)
    assert (path.read_bytes() if path.exists() else None) == before
    return caught.value


def reference(body: bytes, old: bytes, new: bytes, every: bool) -> bytes | None:
    """Edit as one would by hand; None for a refusal."""
    if b"\r" not in old and body.count(b"\n") == body.count(b"\r\n") > 0:
        old, new = (text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for text in (old, new))
    places = [at for at in range(len(body) - len(old) + 1) if body[at : at + len(old)] == old]
    if not places or old == new or (len(places) > 1 and not every):
        return None
    return new.join(body.split(old)) if every else body[: places[0]] + new + body[places[0] + len(old) :]


@given(body=BYTES, old=BYTES.filter(bool), new=BYTES, every=st.booleans(), crlf=st.booleans())
@settings(max_examples=600, deadline=None)
def test_an_edit_does_what_one_would_do_by_hand(body: bytes, old: bytes, new: bytes, every: bool, crlf: bool) -> None:
    body = as_crlf(body) if crlf else body
    wanted = reference(body, old, new, every)
    if wanted is None:
        with pytest.raises(Refusal):
            apply_edit("f", body, Edit(old, new, every, ""))
    else:
        assert apply_edit("f", body, Edit(old, new, every, "")).body == wanted


@given(body=BYTES, at=st.integers(0, 30), length=st.integers(1, 8), new=BYTES)
@settings(max_examples=300, deadline=None)
def test_what_is_found_in_a_file_can_be_replaced_in_it(body: bytes, at: int, length: int, new: bytes) -> None:
    old = body[at : at + length]
    if not old or old == new or is_crlf(body):
        return
    assert apply_edit("f", body, Edit(old, new, True, "")).body == body.replace(old, new)


def test_only_the_edited_bytes_change_in_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"caf\xe9\nname = 1\n\x00\xff\xfe tail without end")
    result = edit_file(path, (b"name = 1", "name = 'é'".encode(), False))
    assert path.read_bytes() == b"caf\xe9\nname = '\xc3\xa9'\n\x00\xff\xfe tail without end"
    assert (result["replacements"], result["first_changed_line"], result["created"]) == ([1], 2, False)
    assert "-name = 1\n+name = 'é'\n" in result["diff"]
    assert " caf\\xe9\n" in result["diff"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o4755, 0o444])
def test_the_mode_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(mode)
    edit_file(path, (b"old", b"new", False))
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    os.chown(path, 1234, 2345)
    path.chmod(0o6750)
    edit_file(path, (b"old", b"new", False))
    facts = path.stat()
    assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (1234, 2345, 0o6750)


def test_extended_attributes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    edit_file(path, (b"old", b"new", False))
    assert os.getxattr(path, "user.note") == b"kept"


def test_a_link_is_followed_and_stays_and_hard_links_are_told(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "hard").hardlink_to(tmp_path / "real")
    result = edit_file(tmp_path / "link", (b"old", b"new", False))
    assert (tmp_path / "link").is_symlink()
    assert (result["path"], result["other_links"]) == (str(tmp_path / "real"), 1)
    assert ((tmp_path / "real").read_bytes(), (tmp_path / "hard").read_bytes()) == (b"new", b"old")


def test_crlf_files_stay_crlf(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    result = edit_file(path, (b"one\ntwo\n", b"1\n2\n2b\n", False))
    assert (path.read_bytes(), result["crlf"]) == (b"1\r\n2\r\n2b\r\nthree\r\n", True)
    result = edit_file(path, (b"three", b"3\n4", False))
    assert (path.read_bytes(), result["crlf"]) == (b"1\r\n2\r\n2b\r\n3\r\n4\r\n", True)
    result = edit_file(path, (b"2b\r\n", b"2b\n", False))
    assert (path.read_bytes(), result["crlf"]) == (b"1\r\n2\r\n2b\n3\r\n4\r\n", False)


def test_text_that_is_there_twice_is_refused_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x\nsame\ny\nsame\nsame\n")
    refusal = refused(path, (b"same", b"new", False))
    assert refusal.code == "not_unique"
    assert "3 times" in refusal.message
    assert "lines 2, 4, 5" in refusal.message
    assert edit_file(path, (b"same", b"new", True))["replacements"] == [3]
    assert path.read_bytes() == b"x\nnew\ny\nnew\nnew\n"


def test_overlapping_places_are_not_one_place(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"aaa")
    assert refused(path, (b"aa", b"b", False)).code == "not_unique"


def test_text_that_is_not_there_is_refused_with_the_most_similar_line(tmp_path: Path) -> None:
    path = tmp_path / "f.py"
    path.write_bytes(b"import os\n\ndef hello(name):\n    return name\n")
    refusal = refused(path, (b"def hello(names):\n    return", b"x", False))
    assert refusal.code == "not_found_in_file"
    assert "line 3: def hello(name):" in refusal.message
    assert "other spaces" in refused(path, (b"\treturn name", b"x", False)).message


def test_a_line_with_strange_bytes_is_shown_with_a_fitting_hint(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"the caf\xe9 is open\n")
    refusal = refused(path, ("the caf\ufffd is open".encode(), b"x", False))
    assert "line 1: the caf\\xe9 is open" in refusal.message
    assert "no UTF-8" in str(refusal.hint)


def test_several_edits_see_each_other_and_happen_all_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one two")
    result = edit_file(path, (b"one", b"three", False), (b"three two", b"done", False))
    assert (path.read_bytes(), result["replacements"]) == (b"done", [1, 1])
    refusal = refused(path, (b"done", b"x", False), (b"missing", b"y", False))
    assert "edit 2 of 2" in refusal.message


def test_an_empty_old_text_creates_or_fills_but_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "f"
    result = edit_file(path, (b"", b"first\n", False), (b"first", b"1st", False))
    assert (path.read_bytes(), result["created"], result["previous_sha256"]) == (b"1st\n", True, None)
    assert refused(path, (b"", b"x", False)).code == "not_unique"
    (tmp_path / "empty").write_bytes(b"")
    assert edit_file(tmp_path / "empty", (b"", b"x", False))["created"] is False
    assert (tmp_path / "empty").read_bytes() == b"x"
    assert refused(tmp_path / "none", (b"a", b"b", False)).code == "not_found"


def test_the_expected_hash_decides(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    refusal = refused(path, (b"old", b"new", False), expected_sha256="0" * 64)
    assert refusal.code == "stale"
    assert refusal.details is not None
    sha256 = refusal.details["present_sha256"]
    assert sha256 in refusal.message
    assert edit_file(path, (b"old", b"new", False), expected_sha256=sha256)["previous_sha256"] == sha256


def test_a_dry_run_changes_nothing_and_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old\n")
    before = path.stat()
    result = edit_file(path, (b"old", b"new", False), dry_run=True)
    assert result["diff"] == "@@ -1,1 +1,1 @@\n-old\n+new\n"
    assert path.stat() == before
    edit_file(tmp_path / "sub" / "f", (b"", b"new", False), dry_run=True)
    assert not (tmp_path / "sub").exists()


def test_an_edit_without_effect_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old\n")
    assert refused(path, (b"old", b"old", False)).code == "no_change"


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, code in ((tmp_path, "is_directory"), (tmp_path / "pipe", "not_a_file")):
        with pytest.raises(Refusal) as caught:
            edit_file(path, (b"a", b"b", False))
        assert caught.value.code == code
        assert str(path) in caught.value.message


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as stream:
        stream.truncate(WHOLE_FILE_BYTES + 1)
    with pytest.raises(Refusal) as caught:
        edit_file(path, (b"a", b"b", False))
    assert caught.value.code == "too_large"


ODD = [
    b"a b",
    b"-rf",
    b"new\nline",
    b"'\"`$(touch x)",
    b"n" * 255,
    b"bad-\xff\xfe",
    b"back\\slash",
    "grüße-日本".encode(),
]


@pytest.mark.parametrize("raw", ODD, ids=repr)
def test_odd_names_work(worker: Client, tmp_path: Path, raw: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), raw)  # noqa: PTH118 - these are bytes
    with open(path, "wb") as stream:  # noqa: PTH123
        stream.write(b"old")
    params, body = edit_params(os.fsdecode(path), [(b"old", b"new", False)])
    result = worker.call("edit", params, body).result
    with open(path, "rb") as stream:  # noqa: PTH123
        assert stream.read() == b"new"
    again = {**params, "path": result["path"], "escaped": result["escaped"]}
    result["path"].encode("utf-8")
    assert worker.call("edit", {**again, "edits": [{"old": 3, "new": 3}]}, b"newold").result["changed"] is True
    with open(path, "rb") as stream:  # noqa: PTH123
        assert stream.read() == b"old"
    assert [os.fsencode(found.name) for found in tmp_path.iterdir() if found.name != "home"] == [raw]


def test_edits_side_by_side_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"".join(b"<%d>\n" % number for number in range(24)))
    threads = [
        threading.Thread(target=edit_file, args=(path, (b"<%d>" % number, b"[%d]" % number, False)))
        for number in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert path.read_bytes() == b"".join(b"[%d]\n" % number for number in range(24))
    assert list(tmp_path.iterdir()) == [path]


def test_a_request_whose_lengths_do_not_fit_is_refused(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    for edits in ([], [{"old": 3, "new": 9}], ["x"], [{"old": -1, "new": 4}]):
        with pytest.raises(WorkerError) as caught:
            worker.call("edit", {"path": str(path), "edits": edits}, b"oldnew")
        assert caught.value.code == "bad_params"


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n"]), max_size=40).map(b"".join)


@given(before=LINES, after=LINES, end=st.sampled_from([b"", b"x"]))
@settings(max_examples=300, deadline=None)
def test_the_diff_turns_the_old_contents_into_the_new_ones(before: bytes, after: bytes, end: bytes) -> None:
    from vaws_mcp.worker.engine.patch_match import apply_hunks
    from vaws_mcp.worker.engine.patch_unified import read_unified

    if before == after + end:
        return
    seen = preview(before, after + end, 1 << 20)
    [file] = read_unified(b"--- f\n+++ f\n" + seen.text.encode())
    done = apply_hunks("f", before, file.hunks)
    assert (done.body, done.offsets, seen.left_out) == (after + end, [], 0)


@pytest.mark.parametrize("count", [3000, 3001])
def test_the_diff_of_a_long_file_is_right_and_bounded(count: int) -> None:
    from vaws_mcp.worker.engine.patch_match import apply_hunks
    from vaws_mcp.worker.engine.patch_unified import read_unified

    before = b"".join(b"%d\n" % number for number in range(3000))
    after = b"".join(b"%d%s\n" % (number, b"!" if number % 500 == 3 else b"") for number in range(count))
    whole = preview(before, after, 1 << 20)
    [file] = read_unified(b"--- f\n+++ f\n" + whole.text.encode())
    assert apply_hunks("f", before, file.hunks).body == after
    short = preview(before, after, 30)
    assert short.left_out == whole.text.count("\n") - (short.text.count("\n") - 1)
    assert len(short.text) < 120


def test_two_big_contents_are_not_compared_line_by_line() -> None:
    seen = preview(b"a\n" * (2 << 20), b"b\n" * (2 << 20), 1000)
    assert "too many for a diff" in seen.text
    assert (seen.first_line, seen.left_out > 1) == (1, True)
