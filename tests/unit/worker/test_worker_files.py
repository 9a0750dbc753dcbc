from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
from worker_client import Client, Start, WorkerError, rss_kib


def test_a_page_comes_with_facts_about_the_whole(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "a b.txt"
    raw = b"".join(b"line %d\n" % n for n in range(1, 101))
    path.write_bytes(raw)
    path.chmod(0o640)
    answer = worker.call("read", {"path": str(path), "offset": 11, "limit": 5})
    assert answer.body == b"".join(b"line %d\n" % n for n in range(11, 16))
    expected = {"first_line": 11, "lines": 5, "total_lines": 100, "next_offset": 16, "eof": False, "size": len(raw)}
    assert {name: answer.result[name] for name in expected} == expected
    assert answer.result["sha256"] == hashlib.sha256(raw).hexdigest()
    assert answer.result["mode"] == 0o640
    assert answer.result["mtime_ns"] == path.stat().st_mtime_ns


def test_a_negative_offset_counts_from_the_end(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"1\n2\n3\n4")
    answer = worker.call("read", {"path": str(path), "offset": -2})
    assert (answer.body, answer.result["first_line"], answer.result["eof"]) == (b"3\n4", 3, True)
    assert worker.call("read", {"path": str(path), "offset": -9}).body == b"1\n2\n3\n4"


def test_an_empty_file_and_an_offset_past_the_end(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    result = worker.call("read", {"path": str(path)}).result
    assert (result["total_lines"], result["lines"], result["eof"]) == (0, 0, True)
    path.write_bytes(b"one\n")
    result = worker.call("read", {"path": str(path), "offset": 5}).result
    assert (result["lines"], result["eof"], result["next_offset"]) == (0, True, None)


def test_long_lines_are_cut_at_a_whole_character(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("é" * 50 + "\nshort\n")
    answer = worker.call("read", {"path": str(path), "max_line_bytes": 11})
    assert answer.body.decode() == "é" * 5 + "\nshort\n"
    assert answer.result["truncated_lines"] == [1]


def test_a_page_is_cut_at_max_bytes_between_lines(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789\n" * 10)
    answer = worker.call("read", {"path": str(path), "max_bytes": 25})
    assert (answer.result["lines"], answer.result["next_offset"]) == (2, 3)


def test_a_file_of_the_kernel_is_not_empty(worker: Client) -> None:
    answer = worker.call("read", {"path": "/proc/cpuinfo", "limit": 2})
    assert answer.body.startswith(b"processor")
    assert answer.result["size"] > 0
    assert answer.result["next_offset"] == 3


def test_a_big_log_is_read_in_little_memory(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    line = b"x" * 99 + b"\n"
    with path.open("wb") as stream:
        for _ in range(1000):
            stream.write(line * 1000)
        stream.write(b"the end\n")
    params = {"path": str(path), "limit": 3}
    first = worker.call("read", {**params, "offset": 900_001})
    assert (first.body, first.result["total_lines"], first.result["sha256"]) == (line * 3, None, None)
    assert first.result["next_offset"] == 900_004
    assert first.result["note"]
    last = worker.call("read", {"path": str(path), "offset": -2})
    assert (last.body, last.result["eof"]) == (line + b"the end\n", True)
    assert rss_kib(worker.process.pid) < 60_000


def test_binary_is_refused_with_a_hint_and_allowed_on_request(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.write_bytes(b"ab\0cd")
    with pytest.raises(WorkerError) as caught:
        worker.call("read", {"path": str(path)})
    assert (caught.value.code, bool(caught.value.error["hint"])) == ("binary_file", True)
    assert worker.call("read", {"path": str(path), "binary": "allow"}).body == b"ab\0cd"


def test_text_that_is_not_utf8_comes_back_unchanged(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "latin"
    path.write_bytes(b"caf\xe9\r\n\xff\xfe")
    assert worker.call("read", {"path": str(path)}).body == b"caf\xe9\r\n\xff\xfe"


@pytest.mark.parametrize(
    ("name", "code"),
    [("missing", "not_found"), ("", "is_directory"), ("fifo", "not_a_file"), ("f/x", "not_a_directory")],
)
def test_what_cannot_be_read_is_named(worker: Client, tmp_path: Path, name: str, code: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "f").write_text("x")
    with pytest.raises(WorkerError) as caught:
        worker.call("read", {"path": str(tmp_path / name)})
    assert caught.value.code == code
    assert str(tmp_path) in caught.value.error["message"]


def test_a_new_file_gets_the_mode_of_the_umask(start: Start, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        worker = start()
    finally:
        os.umask(before)
    path = tmp_path / "new"
    result = worker.call("write", {"path": str(path)}, b"data").result
    assert path.read_bytes() == b"data"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (result["created"], result["bytes"], result["previous_sha256"]) == (True, 4, None)
    assert result["sha256"] == hashlib.sha256(b"data").hexdigest()


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444, 0o2755])
def test_mode_and_owner_of_an_existing_file_are_kept(worker: Client, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    if os.getuid() == 0:
        os.chown(path, 12345, 23456)
    path.chmod(mode)
    owner = (path.stat().st_uid, path.stat().st_gid)
    result = worker.call("write", {"path": str(path)}, b"new").result
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert (path.stat().st_uid, path.stat().st_gid) == owner
    assert result["previous_sha256"] == hashlib.sha256(b"old").hexdigest()


def test_a_given_mode_is_set(worker: Client, tmp_path: Path) -> None:
    worker.call("write", {"path": str(tmp_path / "x"), "mode": 0o711}, b"")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o711


def test_a_symbolic_link_stays_and_its_target_is_written(worker: Client, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    assert worker.call("write", {"path": str(tmp_path / "link")}, b"new").result["path"] == str(tmp_path / "target")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_directories_are_created_only_when_asked_for(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "f"
    with pytest.raises(WorkerError, match="not_found"):
        worker.call("write", {"path": str(path)}, b"x")
    worker.call("write", {"path": str(path), "create_dirs": True}, b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize(
    ("params", "code"), [({"if_exists": "refuse"}, "exists"), ({"expected_sha256": "0" * 64}, "stale")]
)
def test_a_refused_write_changes_nothing(worker: Client, tmp_path: Path, params: dict[str, str], code: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(WorkerError) as caught:
        worker.call("write", {"path": str(path), **params}, b"new")
    assert caught.value.code == code
    assert path.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "home"]


def test_the_expected_digest_lets_a_write_through(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    worker.call("write", {"path": str(path), "expected_sha256": hashlib.sha256(b"old").hexdigest()}, b"new")
    assert path.read_bytes() == b"new"


def test_a_write_to_a_directory_leaves_no_temporary_file(worker: Client, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(WorkerError) as caught:
        worker.call("write", {"path": str(tmp_path / "d")}, b"x")
    assert caught.value.code == "is_directory"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "home"]


def test_attributes_of_an_existing_file_are_kept(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    worker.call("write", {"path": str(path)}, b"new")
    assert (path.read_bytes(), os.getxattr(path, "user.note")) == (b"new", b"kept")


STAGED = (".vaws-tmp-" + "a" * 32 + ".new", ".vaws-tmp-abc_12xy")
NOT_STAGED = (".vaws-tmp-" + "a" * 32 + ".old", ".vaws-tmp-notes", ".vaws-tmp-ABCDEFGH", "vaws-tmp-abc_12xy")


@pytest.mark.parametrize("method", ["write", "edit"])
def test_old_files_that_a_killed_worker_was_writing_are_removed(worker: Client, tmp_path: Path, method: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    target, young, linked = folder / "f", folder / ".vaws-tmp-young_12", folder / ".vaws-tmp-linked_1"
    target.write_bytes(b"old")
    for name in (*STAGED, *NOT_STAGED):
        (folder / name).write_bytes(b"part")
        os.utime(folder / name, (1, 1))
    young.write_bytes(b"part")
    linked.symlink_to(target)
    os.utime(linked, (1, 1), follow_symlinks=False)
    params = {"path": str(target)} if method == "write" else {"path": str(target), "edits": [{"old": 3, "new": 3}]}
    worker.call(method, params, b"new" if method == "write" else b"oldnew")
    assert target.read_bytes() == b"new"
    assert {path.name for path in folder.iterdir()} == {"f", young.name, linked.name, *NOT_STAGED}
