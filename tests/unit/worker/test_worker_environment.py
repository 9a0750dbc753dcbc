from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from worker_client import Client, Start, WorkerError


def run(worker: Client, command: str, **env_spec: Any) -> tuple[str, str]:
    answer = worker.bash(command, env_spec=env_spec)
    return answer.body.decode(), answer.result["env_source"]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "inner.sh").write_text("export INNER=1\n")
    (folder / "set env.sh").write_text(
        'echo noise; declare -x DECLARED=d\nif [ -z "$NEVER" ]; then export A="x\ny"; fi\n'
        'cd "$(dirname "${BASH_SOURCE[0]}")"; . ./inner.sh --flag; unset GONE; export -n HIDDEN=1\nreturn 3\n'
    )
    return folder


def test_env_files_are_sourced_once_and_then_kept(start: Start, scripts: Path, home: Path) -> None:
    worker = start(GONE="1")
    files = [str(scripts / "set env.sh")]
    command = 'echo "$A|$INNER|$DECLARED|${GONE-no}|${HIDDEN-no}|$PWD"'
    expected = f"x\ny|1|d|no|no|{home}\n"
    assert run(worker, command, env_files=files) == (expected, "sourced")
    assert run(worker, command, env_files=files) == (expected, "cached")
    assert run(start(GONE="1"), command, env_files=files) == (expected, "cached")
    assert run(worker, command, env_files=files, refresh=True) == (expected, "sourced")
    cached = list((home / ".vaws" / "env-cache").iterdir())
    assert len(cached) == 1
    assert cached[0].stat().st_mode & 0o777 == 0o600
    assert set(json.loads(cached[0].read_text())["files"]) == {files[0], str(scripts / "inner.sh")}


@pytest.mark.parametrize("fresh_worker", [True, False])
def test_a_change_in_a_file_sourced_by_another_is_seen(start: Start, scripts: Path, fresh_worker: bool) -> None:
    files = [str(scripts / "set env.sh")]
    worker = start()
    run(worker, "true", env_files=files)
    (scripts / "inner.sh").write_text("export INNER=changed\n")
    worker = start() if fresh_worker else worker
    assert run(worker, "echo $INNER", env_files=files) == ("changed\n", "sourced")


def test_a_torn_cache_entry_is_made_anew(start: Start, scripts: Path, home: Path) -> None:
    files = [str(scripts / "inner.sh")]
    run(start(), "true", env_files=files)
    next((home / ".vaws" / "env-cache").iterdir()).write_text('{"set":')
    assert run(start(), "echo $INNER", env_files=files) == ("1\n", "sourced")


def test_a_missing_file_is_named(worker: Client) -> None:
    with pytest.raises(WorkerError) as caught:
        run(worker, "true", env_files=["/no/such/set_env.sh"])
    assert caught.value.code == "env_file_missing"
    assert "/no/such/set_env.sh" in caught.value.error["message"]


def test_a_script_that_exits_is_reported_with_its_words(worker: Client, scripts: Path) -> None:
    (scripts / "exit.sh").write_text("echo cannot go on >&2; exit 4\n")
    with pytest.raises(WorkerError) as caught:
        run(worker, "true", env_files=[str(scripts / "exit.sh")])
    assert caught.value.code == "env_failed"
    assert "cannot go on" in caught.value.error["message"]


def test_a_cancel_ends_a_script_that_hangs(worker: Client, scripts: Path) -> None:
    (scripts / "hang.sh").write_text("sleep 100\n")
    params = {"command": "true", "env_spec": {"env_files": [str(scripts / "hang.sh")]}}
    number = worker.start("run", params, deadline_s=0.2)
    with pytest.raises(WorkerError) as caught:
        worker.finish(number)
    assert caught.value.code == "deadline"


def test_a_virtual_environment_comes_first_in_path(worker: Client, tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    text, source = run(worker, 'echo "$VIRTUAL_ENV ${PATH%%:*}"', venv=str(tmp_path / "venv"))
    assert text == f"{tmp_path}/venv {tmp_path}/venv/bin\n"
    assert source == "direct"
    with pytest.raises(WorkerError, match="venv_missing"):
        run(worker, "true", venv=str(tmp_path))
