"""Starting, finding and stopping the container."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sim_box import QUIET, Box, wait_until

import vaws_mcp.sim as sim
from vaws_mcp.sim.processes import identify, marked


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, vaws_mcp.sim; print([m for m in ('asyncio', 'asyncssh', 'subprocess') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert answer.stdout.strip() == "[]"


def test_start_status_stop_leave_no_process_and_no_sandbox(tmp_path: Path):
    assert sim.status(tmp_path) == {"running": False}
    facts = sim.start_detached(QUIET, tmp_path)
    assert not facts["already_running"]
    assert sim.status(tmp_path)["running"]
    assert stat.S_IMODE(Path(facts["identity_file"]).stat().st_mode) == 0o600
    with Box(facts).serve():
        left = sim.stop(tmp_path)
    assert left["stopped"]
    assert left["was_running"]
    assert left["survivors"] == []
    assert marked(facts["marker"]) == []
    assert identify(facts["pid"]) is None
    assert not Path(facts["root"]).exists()
    assert sim.status(tmp_path) == {"running": False}
    assert sim.stop(tmp_path) == {"was_running": False, "stopped": True, "signalled": 0, "survivors": []}


def test_a_second_start_answers_the_running_container(box: Box):
    state_dir = Path(box.facts["identity_file"]).parents[1]
    again = sim.start_detached(QUIET, state_dir)
    assert again["already_running"]
    assert again["pid"] == box.facts["pid"]


@pytest.mark.asyncio
async def test_serving_in_the_foreground_answers_the_running_container(box: Box):
    reports: list[dict[str, object]] = []
    state_dir = Path(box.facts["identity_file"]).parents[1]
    await asyncio.wait_for(sim.serve(QUIET, state_dir, reports.append), 10)
    assert [report["already_running"] for report in reports] == [True]


@pytest.mark.asyncio
async def test_cancelling_the_foreground_container_cleans_up(tmp_path: Path):
    ready: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    task = asyncio.create_task(sim.serve(QUIET, tmp_path, ready.put_nowait))
    facts = await asyncio.wait_for(ready.get(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await asyncio.to_thread(Path(str(facts["root"])).exists)
    assert sim.status(tmp_path) == {"running": False}


def test_a_killed_container_takes_its_servers_along_and_the_next_start_cleans_up(tmp_path: Path):
    facts = sim.start_detached(QUIET, tmp_path)
    with Box(facts).serve("-tp", "2"):
        sleeper = subprocess.Popen(["sleep", "60"], env=Box(facts).environment())
        os.kill(facts["pid"], signal.SIGKILL)
        wait_until(lambda: len(marked(facts["marker"])) == 1, 5, "the server's processes left by themselves")
        assert not sim.status(tmp_path)["running"]
        again = sim.start_detached(QUIET, tmp_path)
    assert sleeper.wait(5) != 0
    assert not again["already_running"]
    assert not Path(facts["root"]).exists()
    assert sim.stop(tmp_path)["stopped"]


def test_a_sandbox_given_by_the_caller_is_kept(tmp_path: Path):
    root = tmp_path / "sandbox"
    facts = sim.start_detached(sim.SimOptions(root=root, devices=4, layout="a3"), tmp_path)
    assert (facts["root"], facts["devices"], facts["layout"]) == (str(root), 4, "a3")
    assert sim.stop(tmp_path)["stopped"]
    assert (root / "bin" / "npu-smi").exists()


def test_a_damaged_record_is_reported_by_name_and_left_alone(tmp_path: Path):
    record = tmp_path / "sim" / "sim.json"
    record.parent.mkdir()
    record.write_text('{"pid": 1')
    calls: list[Callable[[Path], object]] = [sim.status, sim.stop, lambda path: sim.start_detached(QUIET, path)]
    for call in calls:
        with pytest.raises(sim.SimError, match=r"sim\.json"):
            call(tmp_path)
    assert record.read_text() == '{"pid": 1'


def test_another_system_is_refused_with_an_alternative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(sim.SimUnsupported, match="demo --on ENDPOINT"):
        sim.start_detached(QUIET, tmp_path)


def test_a_machine_without_git_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sim.SimUnsupported, match="needs git"):
        sim.start_detached(QUIET, tmp_path)


def _git(box: Box, repository: str, *words: str) -> str:
    answer = box.run("git", "-C", box.facts[repository], *words)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def test_the_repositories_have_the_promised_history(box: Box):
    for repository in ("vllm_repo", "vllm_ascend_repo"):
        assert _git(box, repository, "rev-parse", "--abbrev-ref", "HEAD") == "main"
        assert _git(box, repository, "rev-list", "--count", "main") == "2"
        assert _git(box, repository, "status", "--porcelain") == ""
        assert "refs/pull/12/head" in _git(box, repository, "ls-remote", "origin")
        assert "refs/pull" not in _git(box, repository, "for-each-ref")
    assert _git(box, "vllm_ascend_repo", "rev-list", "--count", "main..slow-decode") == "1"
    assert '"decode_scale": 1.1' in _git(box, "vllm_ascend_repo", "show", "slow-decode:vllm_ascend/simulation.json")


def test_commit_ids_are_the_same_everywhere(box: Box):
    ids = [_git(box, "vllm_ascend_repo", "rev-parse", name) for name in ("main", "slow-decode")]
    assert ids == ["f28cdc333ff21069c968584346743c1eaaccb724", "01b56ec4f3d416cea8a72f74a74e76755f6983fe"]


def test_the_environment_is_the_containers_own(box: Box):
    variables = box.environment()
    assert set(variables) >= {"VAWS_SIM", "VAWS_SIM_MARKER", "VAWS_SIM_BOOT_ID", "VAWS_LEASE_DIR", "SPT_NOENV"}
    assert variables["HOME"].startswith(box.facts["root"])
    assert os.environ["HOME"] != variables["HOME"]
