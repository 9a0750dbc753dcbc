"""The worker's archive is the same for the same sources, and its start names data only as arguments."""

from __future__ import annotations

import fcntl
import io
import os
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vaws_mcp.endpoint import archive
from vaws_mcp.worker.homes import hold, remove_one_unused
from vaws_mcp.worker.wire import encode


def test_the_archive_holds_all_modules_and_nothing_of_this_machine() -> None:
    sha, data = archive.worker_archive()
    root = Path(archive.__file__).parents[1] / "worker"
    with tarfile.open(fileobj=io.BytesIO(data)) as packed:
        members = packed.getmembers()
    assert [member.name for member in members] == sorted(
        f"vaws_worker/{path.relative_to(root).as_posix()}" for path in root.rglob("*.py")
    )
    assert {(member.uid, member.gid, member.uname, member.mtime, member.mode) for member in members} == {
        (0, 0, "", 0, 0o644)
    }
    assert len(sha) == 16


def test_the_same_sources_give_the_same_bytes_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[str, bytes]] = []
    for now in (1.0, 1e9):
        monkeypatch.setattr("time.time", lambda now=now: now)
        archive.worker_archive.cache_clear()
        found.append(archive.worker_archive())
    assert found[0] == found[1]


def test_the_start_is_one_shell_line_with_the_program_as_argument() -> None:
    argv = archive.start_argv(("python3", "/odd path/py'thon"))
    assert argv[:2] == ["/bin/sh", "-c"]
    assert argv[3] == archive.BOOTSTRAP
    assert shlex.quote("/odd path/py'thon") in argv[2]


@pytest.mark.parametrize("names", [("no-such-python",), ("/no/such/python", "/etc/passwd")])
def test_without_an_interpreter_the_shell_says_so(names: tuple[str, ...]) -> None:
    done = subprocess.run(archive.start_argv(names), capture_output=True, timeout=10, check=True)
    assert done.stdout == b"\0VAWS-BOOT none -\n"


def test_a_first_start_unpacks_and_a_second_one_does_not(tmp_path: Path) -> None:
    sha, data = archive.worker_archive()
    argv = archive.start_argv((sys.executable,))
    states: list[bytes] = []
    for sent in (data, b""):
        done = subprocess.run(
            argv, input=sent, capture_output=True, timeout=60, check=True, env={"HOME": str(tmp_path)}
        )
        states += [line for line in done.stdout.split(b"\n") if b"VAWS-BOOT" in line]
    assert [state.split()[1] for state in states] == [b"need", b"start", b"start"]
    assert [entry.name for entry in (tmp_path / ".vaws").iterdir()] == [f"worker-{sha}"]


def test_a_push_that_breaks_off_leaves_no_complete_worker(tmp_path: Path) -> None:
    _, data = archive.worker_archive()
    argv = archive.start_argv((sys.executable,))
    env = {"HOME": str(tmp_path)}
    done = subprocess.run(argv, input=data[:1000], capture_output=True, timeout=60, check=False, env=env)
    assert done.returncode == 1
    assert not list(tmp_path.glob(".vaws/*/complete"))


OLD = (1, 1)


def make_version(base: Path, name: str, times: tuple[int, int] | None) -> Path:
    home = base / name
    (home / "vaws_worker").mkdir(parents=True)
    (home / "complete").touch()
    if times:
        os.utime(home / "complete", times)
        os.utime(home, times)
    return home


@contextmanager
def running(home: Path) -> Generator[None]:
    """Run a worker in a home directory that has answered."""
    unpacked = list(home.glob(".vaws/worker-*/vaws_worker/serve.py"))
    with subprocess.Popen(
        archive.start_argv((sys.executable,)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"HOME": str(home)}
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(
            (b"" if unpacked else archive.worker_archive()[1]) + b"".join(encode({"id": 1, "call": "ping"}, b""))
        )
        process.stdin.flush()
        while b'"id":1' not in os.read(process.stdout.fileno(), 65536).replace(b" ", b""):
            assert process.poll() is None
        yield
        process.stdin.close()
        assert process.wait(20) == 0


def test_starting_dates_a_version_again(tmp_path: Path) -> None:
    sha, data = archive.worker_archive()
    for sent in (data, b""):
        subprocess.run(
            archive.start_argv((sys.executable,)),
            input=sent,
            capture_output=True,
            timeout=60,
            check=True,
            env={"HOME": str(tmp_path)},
        )
        mark = tmp_path / ".vaws" / f"worker-{sha}" / "complete"
        assert time.time() - mark.stat().st_mtime < 60
        os.utime(mark, OLD)


def test_each_start_removes_one_version_that_nobody_has_used_for_a_month(tmp_path: Path) -> None:
    base = tmp_path / ".vaws"
    sha = archive.worker_archive()[0]
    held = make_version(base, "worker-" + "0" * 16, OLD)
    make_version(base, "worker-" + "1" * 16, OLD)
    make_version(base, "worker-" + "2" * 16, None)
    make_version(base, "worker-notes", OLD)
    (base / "worker-unpack-abc_1234").mkdir()
    os.utime(base / "worker-unpack-abc_1234", OLD)
    (base / ("worker-" + "3" * 16)).symlink_to(held)
    with (held / "complete").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        names = [remove_one_unused(str(base / f"worker-{sha}")) for _ in range(3)]
    assert names == ["worker-" + "1" * 16, "worker-unpack-abc_1234", None]
    left = ["worker-" + "0" * 16, "worker-" + "2" * 16, "worker-" + "3" * 16, "worker-notes"]
    assert sorted(entry.name for entry in base.iterdir()) == left
    assert remove_one_unused(str(base / "elsewhere")) is None


def test_a_running_worker_holds_its_version_and_removes_another(tmp_path: Path) -> None:
    base = tmp_path / ".vaws"
    home = base / f"worker-{archive.worker_archive()[0]}"
    other = str(base / ("worker-" + "5" * 16))
    with running(tmp_path):
        os.utime(home / "complete", OLD)
        assert remove_one_unused(other) is None
    unused = make_version(base, "worker-" + "1" * 16, OLD)
    with running(tmp_path):
        limit = time.monotonic() + 10
        while unused.exists() and time.monotonic() < limit:
            time.sleep(0.02)
        assert not unused.exists()
    os.utime(home / "complete", OLD)
    names = [remove_one_unused(other) for _ in range(3)]  # the worker may have left a part of the first one
    assert home.name in names
    assert names[-1] is None
    assert list(base.iterdir()) == []


def test_a_version_is_held_only_where_there_is_one(tmp_path: Path) -> None:
    assert hold(str(tmp_path)) is None
