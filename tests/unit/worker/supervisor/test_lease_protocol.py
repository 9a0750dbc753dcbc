"""Many requesters, few devices and sudden deaths: a device never has two holders, and the queue keeps its order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import lease_rounds
import pytest
from lease_judge import Ask, double_holders, figures, inversions

ROUNDS = int(os.environ.get("VAWS_LEASE_ROUNDS", "400"))
REQUESTERS = 8
ROOT, NOBODY = 0, 65534
SYSTEM_PYTHON = "/usr/bin/python3"


def words(logs: Path, lease_dir: Path, boot_id: str, requesters: int, rounds: int, seed: int) -> list[str]:
    seconds = max(30.0, rounds * 0.25)
    return [str(logs), str(lease_dir), boot_id, str(requesters), str(rounds), str(seconds), str(seed)]


def check(logs: Path, rounds: int) -> None:
    found = figures(logs)
    print(f"{found['holds']} holds, {found['kills']} kills")
    assert found["holds"] >= rounds
    assert found["kills"] > rounds / 20
    assert found["devices"] == list(range(lease_rounds.DEVICES))
    assert (found["doubles"], found["inversions"], found["troubles"]) == ([], [], [])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_device_has_two_holders_and_nobody_is_overtaken(tmp_path: Path) -> None:
    arguments = words(tmp_path, tmp_path / "leases", uuid.uuid4().hex, REQUESTERS, ROUNDS, 7)
    program = [sys.executable, str(Path(lease_rounds.__file__)), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=800, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    check(tmp_path, ROUNDS)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory like /tmp, that every user can write in, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="vaws-test-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_users_share_the_queue_and_the_devices(open_folder: Path) -> None:
    if os.geteuid() != ROOT:
        pytest.skip("only root can act as two users")
    lease_dir = open_folder / "leases"
    boot_id = uuid.uuid4().hex
    running: list[subprocess.Popen[bytes]] = []
    for number, user in enumerate((NOBODY, ROOT)):
        logs = open_folder / f"logs-{user}"
        logs.mkdir()
        os.chown(logs, user, user)
        arguments = words(logs, lease_dir, boot_id, REQUESTERS // 2, ROUNDS // 4, number)
        program = [SYSTEM_PYTHON, "-B", str(Path(lease_rounds.__file__)), *arguments]
        running.append(subprocess.Popen(program, user=user, group=user, extra_groups=[], umask=0o077, stderr=-1))
    ended = [process.communicate(timeout=800)[1] for process in running]
    if any(b"Permission denied" in said and b"can't open file" in said for said in ended):
        pytest.skip("another user cannot read this project")
    assert ended == [b"", b""]
    for folder in open_folder.glob("logs-*"):
        for path in folder.glob("events-*"):
            path.rename(open_folder / path.name)
    check(open_folder, ROUNDS // 2)


def test_the_judge_sees_two_holders_and_an_inversion() -> None:
    first = Ask("a", "a", ["x"], [0], asked=1, ticketed=2, granted=5, held=6, ended=8)
    second = Ask("b", "b", ["x", "y"], [0, 1], asked=3, ticketed=4, granted=6.5, held=7, ended=9)
    assert double_holders([first, second]) == [("a", "b", 0)]
    assert inversions([first, second]) == []
    first.granted, first.held, first.ended = 10, 11, 12
    assert double_holders([first, second]) == []
    assert inversions([first, second]) == [("a", "b")]
    first.ended = 6
    assert inversions([first, second]) == []
    first.ended, first.keys = 12, ["z"]
    assert inversions([first, second]) == []
