"""The worker's archive is the same for the same sources, and its start names data only as arguments."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from vaws_mcp.endpoint import archive


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
