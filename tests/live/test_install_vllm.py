"""The installer of the vLLM environment finds, refuses and reports without installing anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import install_vllm
import pytest


def test_check_names_the_place_and_the_command_without_installing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, install_vllm.__file__, "--check"],
        env={**os.environ, "VAWS_LIVE_CACHE": str(tmp_path / "empty")},
        capture_output=True,
        timeout=30,
        check=True,
    )
    state = json.loads(done.stdout)
    assert state["ready"] is False
    assert state["how"] == install_vllm.HOW_TO_INSTALL
    assert Path(state["path"]).parent == tmp_path / "empty"
    assert not (tmp_path / "empty").exists()


def test_environment_is_renamed_by_a_change_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = install_vllm.environment().path
    changed = tmp_path / "list.txt"
    changed.write_text(install_vllm.LOCK_LIST.read_text(encoding="utf-8") + "another==1.0\n", encoding="utf-8")
    monkeypatch.setattr(install_vllm, "LOCK_LIST", changed)
    assert install_vllm.environment().path.parent == before.parent
    assert install_vllm.environment().path != before


def test_half_built_environment_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAWS_LIVE_CACHE", str(tmp_path))
    place = install_vllm.environment()
    for path in (place.python, place.vllm, place.model / "config.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert not place.ready
    place.marker.write_text("{}", encoding="utf-8")
    assert place.ready


def test_a_held_lock_is_waited_for_and_then_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install_vllm, "LOCK_TIMEOUT_S", 0.2)
    path = tmp_path / "place"
    with (
        install_vllm.only_one(path),
        pytest.raises(install_vllm.InstallError, match=r"place\.lock"),
        install_vllm.only_one(path),
    ):
        pytest.fail("two installations held one lock")
    with install_vllm.only_one(path):
        assert path.with_name("place.lock").exists()


def test_a_failed_step_is_named_with_the_end_of_its_output() -> None:
    argv = [sys.executable, "-c", "import sys; print('first'); print('last', file=sys.stderr); sys.exit(3)"]
    with pytest.raises(install_vllm.InstallError, match=r"(?s)trying: exit code 3.*first.*last"):
        install_vllm.must_run("trying", argv)


def test_a_python_without_pip_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_ensurepip(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "3.11\n", "ModuleNotFoundError: No module named 'ensurepip'")

    monkeypatch.setattr(install_vllm, "run", without_ensurepip)
    with pytest.raises(install_vllm.InstallError, match=r"apt-get install python3\.11-venv"):
        install_vllm.find_python()


def test_without_python_3_11_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def newer(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "3.13\n", "")

    monkeypatch.setattr(install_vllm, "run", newer)
    with pytest.raises(install_vllm.InstallError, match=r"no Python 3\.11 found"):
        install_vllm.find_python()
