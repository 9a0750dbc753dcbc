from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moving import contents, leftovers
from pairs import move

from vaws_mcp.worker.engine.artifacts.entries import check_entries
from vaws_mcp.worker.engine.artifacts.scan import PART_PREFIX, scan
from vaws_mcp.worker.engine.artifacts.staging import Staging
from vaws_mcp.worker.refusal import Refusal

PROJECT = Path(__file__).parents[3]
AS_NOBODY = """
import os, sys
from vaws_mcp.worker.engine.artifacts.scan import scan
os.setgroups([])
os.setuid(65534)
scan(sys.argv[1].encode(), lambda: None)
"""
SPECIAL_NAMES = [
    b"a b",
    b"new\nline",
    b"'\"",
    b"$(touch x)",
    b"-rf",
    b"\xff\xfe",
    b"\xe4",
    "ü".encode(),
    b"n" * 255,
    b"\\",
]
NAMES = st.one_of(
    st.sampled_from(SPECIAL_NAMES),
    st.binary(min_size=1, max_size=6).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_")),
).filter(lambda name: name not in (b".", b"..") and not name.startswith(PART_PREFIX))
TIMES = st.integers(0, 4_000_000_000 * 10**9)
FILES = st.tuples(st.just("file"), st.binary(max_size=2000), st.integers(0, 0o777), TIMES)
LINKS = st.tuples(st.just("link"), st.sampled_from([b".", b"x", b"new\nline", b"\xff\xfe", b"a b/x"]))
TREES = st.recursive(
    st.dictionaries(NAMES, FILES | LINKS, max_size=4),
    lambda inner: st.dictionaries(NAMES, FILES | LINKS | st.tuples(st.just("folder"), inner, TIMES), max_size=4),
    max_leaves=12,
)


def refusal_code(work: Callable[[], object]) -> str | None:
    """Return the code of the refusal that some work ends with, or None."""
    try:
        work()
    except Refusal as refusal:
        return refusal.code
    return None


def is_circle(path: Path) -> bool:
    """Say whether the kernel gives up on following a link."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def build(root: Path, tree: dict[bytes, Any]) -> None:
    root.mkdir()
    for name, node in tree.items():
        path = root / os.fsdecode(name)
        if node[0] == "folder":
            build(path, node[1])
            os.utime(path, ns=(node[2], node[2]))
        elif node[0] == "link":
            path.symlink_to(os.fsdecode(node[1]))
        else:
            path.write_bytes(node[1])
            path.chmod(node[2])
            os.utime(path, ns=(node[3], node[3]))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tree=TREES, changed=TREES)
def test_any_tree_arrives_as_it_is_and_any_change_follows(tree: dict[bytes, Any], changed: dict[bytes, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two, target = (Path(folder) / name for name in ("one", "two", "target"))
        build(one, tree)
        move(one, target)
        assert contents(target) == contents(one)
        assert move(one, target)["sent_files"] == 0
        assert contents(target) == contents(one)
        build(two, changed)
        code = refusal_code(lambda: move(two, target, delete=True))
        assert code == "type_conflict" or (code is None and contents(target) == contents(two))
        assert not leftovers(target)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(links=st.dictionaries(st.sampled_from(["a", "b", "d/c", "d/e/f"]), st.text("abcdef/.", min_size=1, max_size=9)))
def test_links_are_judged_as_the_kernel_follows_them(links: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "root"
        (root / "d" / "e").mkdir(parents=True)
        for rel, target in links.items():
            (root / rel).symlink_to(target)
        code = refusal_code(lambda: check_entries(scan(os.fsencode(root), lambda: None)))
        assert code in (None, "unsafe_link")
        for rel in links if code is None else []:
            assert is_circle(root / rel) or Path(os.path.realpath(root / rel)).is_relative_to(root)


def test_sparse_files_stay_sparse(tmp_path: Path) -> None:
    source = tmp_path / "sparse"
    with source.open("wb") as file:
        file.write(b"begin")
        file.seek(40 << 20)
        file.write(b"end")
        file.truncate(60 << 20)
    move(source, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert (tmp_path / "copy").stat().st_blocks * 512 < 8 << 20


def test_a_single_file_replaces_another_and_gets_its_own_mode(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "new").chmod(0o750)
    (tmp_path / "old").write_bytes(b"older")
    move(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o750


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_of_a_replaced_file_stays(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "old").write_bytes(b"older")
    os.chown(tmp_path / "old", 1234, 2345)
    move(tmp_path / "new", tmp_path / "old")
    facts = (tmp_path / "old").stat()
    assert (facts.st_uid, facts.st_gid, (tmp_path / "old").read_bytes()) == (1234, 2345, b"new")


def test_an_equal_file_with_another_time_is_not_sent(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"x" * 100_000)
    os.utime(tmp_path / "one", ns=(5, 5))
    done = move(tmp_path / "one", tmp_path / "two")
    assert (done["sent_bytes"], done["spared_bytes"]) == (0, 100_000)
    assert (tmp_path / "two").stat().st_mtime_ns == 5


def test_a_difference_that_size_and_time_hide_is_found_by_checksum(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode())
        os.utime(tmp_path / name, ns=(5, 5))
    assert move(tmp_path / "one", tmp_path / "two")["unchanged"] == 1
    assert move(tmp_path / "one", tmp_path / "two", checksum=True)["sent_files"] == 1
    assert (tmp_path / "two").read_bytes() == b"one"


def test_a_device_a_pipe_and_an_outside_link_are_refused_by_name(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    os.mkfifo(tree / "a-pipe")
    with pytest.raises(Refusal, match="a-pipe"):
        move(tree, tmp_path / "copy")
    (tree / "a-pipe").unlink()
    (tree / "a-link").symlink_to("/etc")
    with pytest.raises(Refusal, match="a-link"):
        move(tree, tmp_path / "copy")
    with pytest.raises(Refusal, match="/dev/null"):
        move("/dev/null", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_file_where_a_directory_has_to_be_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "tree" / "name").mkdir(parents=True)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "name").write_bytes(b"kept")
    with pytest.raises(Refusal, match="name"):
        move(tmp_path / "tree", tmp_path / "copy")
    assert (tmp_path / "copy" / "name").read_bytes() == b"kept"


def test_a_dry_run_says_what_would_happen_and_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "new").write_bytes(b"12345")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "extra").write_bytes(b"")
    before = contents(tmp_path)
    done = move(tmp_path / "tree", tmp_path / "copy", dry_run=True, delete=True)
    assert (done["sent_files"], done["sent_bytes"], done["deleted"]) == (1, 5, ["extra"])
    assert contents(tmp_path) == before


def test_delete_is_refused_where_the_home_directory_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "homes" / "me"))
    (tmp_path / "homes" / "me").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    with pytest.raises(Refusal) as refused:
        move(tmp_path / "tree", tmp_path / "homes", delete=True)
    assert refused.value.code == "unsafe_target"


def test_two_transfers_to_one_target_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vaws_mcp.worker.engine.artifacts import staging

    monkeypatch.setattr(staging, "LOCK_WAIT_S", 0.1)
    held = staging.Staging(os.fsencode(tmp_path / "copy"), inside=False)
    held.open()
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(Refusal) as refused:
        move(tmp_path / "file", tmp_path / "copy")
    assert refused.value.code == "busy"
    held.close()
    move(tmp_path / "file", tmp_path / "copy")


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    (tmp_path / "disk").mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(tmp_path / "disk")]
    if shutil.which("mount") is None or subprocess.run(argv, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path / "disk"
    subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def test_what_does_not_fit_is_refused_before_it_is_sent(tmp_path: Path, small_disk: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (3 << 20))
    with pytest.raises(Refusal) as refused:
        move(tmp_path / "big", small_disk / "big")
    assert refused.value.code == "disk_full"
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_leaves_nothing_half(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vaws_mcp.worker.engine.artifacts import flow

    def no_check(*_: object) -> None:
        """Stands for a disk that others fill after the check."""

    monkeypatch.setattr(flow, "check_space", no_check)
    (tmp_path / "big").write_bytes(b"x" * (3 << 20))
    (small_disk / "big").write_bytes(b"old")
    with pytest.raises(Refusal) as refused:
        move(tmp_path / "big", small_disk / "big")
    assert refused.value.code == "disk_full"
    assert "big" in refused.value.message
    assert [(path.name, path.read_bytes()) for path in small_disk.iterdir()] == [("big", b"old")]


def test_a_file_that_is_written_meanwhile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vaws_mcp.worker.engine.artifacts import send

    log = tmp_path / "log"
    log.write_bytes(b"line\n")

    def append(sender: object) -> None:
        """Stands for a program that writes between the look and the reading."""
        with log.open("ab") as file:
            file.write(b"more\n")

    monkeypatch.setattr(send.Sender, "_wait_tick", append)
    done = move(log, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"line\n"
    assert [Path(name).name for name in done["changed"]] == ["copy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="root can read everything, so it takes another user to be refused")
def test_an_unreadable_file_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        tree = Path(folder) / "tree"
        (tree / "closed").mkdir(parents=True, mode=0o700)
        (tree / "readable").write_bytes(b"x")
        (tree / "secret").write_bytes(b"x")
        (tree / "secret").chmod(0)
        argv = [sys.executable, "-c", AS_NOBODY, str(tree)]
        done = subprocess.run(argv, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "Permission denied" in last
    assert "secret" in last
    assert "closed" in last
    assert "readable," not in last


def test_a_staging_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "elsewhere").mkdir()
    Path(os.fsdecode(Staging(os.fsencode(tmp_path / "copy"), inside=False).path)).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refusal) as refused:
        move(tmp_path / "file", tmp_path / "copy")
    assert refused.value.code == "staging_foreign"
    assert list((tmp_path / "elsewhere").iterdir()) == []
