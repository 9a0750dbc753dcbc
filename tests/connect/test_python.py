"""The worker needs a Python; which one was found, and that it does not fit, is said."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from pathlib import Path

import pytest
from places import Server, open_server, remote_dev

Capture = pytest.CaptureFixture[str]
PRETENDER = "#!/bin/sh\nprintf '\\000VAWS-BOOT old 3.6.15\\n'\n"


def old_pythons() -> list[Path]:
    """Real interpreters that are too old for the worker, where pyenv has some."""
    folder = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv" / "versions"
    return sorted(folder.glob("3.[67].*/bin/python"))


def programs(folder: Path, **links: str) -> Path:
    """Make a directory of programs: what a shell needs, and the given ones (a target, or the text of a script)."""
    folder.mkdir()
    for name in ("bash", "env", "sleep", "cat"):
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, content in links.items():
        path = folder / name.replace("_", ".")
        if content.startswith("#!"):
            path.write_text(content)
            path.chmod(0o755)
        else:
            path.symlink_to(content)
    return folder


@pytest.fixture
def pretender(tmp_path: Path) -> Path:
    return programs(tmp_path / "pretender", python3=PRETENDER) / "python3"


def test_an_old_python_is_named_with_its_version(
    server: Server, state_dir: Path, capfd: Capture, pretender: Path
) -> None:
    server.register(state_dir, python=str(pretender))
    code, answer = remote_dev(capfd, "probe", "--endpoint", "box")
    assert code == 1
    assert (answer["error"]["code"], answer["error"]["layer"]) == ("python_missing", "remote_env")
    assert f"its {pretender} is 3.6.15" in answer["error"]["message"]
    assert "endpoints.toml" in answer["error"]["hint"]


@pytest.mark.parametrize("python", old_pythons(), ids=lambda path: path.parts[-3])
def test_a_real_old_python_can_say_so(server: Server, state_dir: Path, capfd: Capture, python: Path) -> None:
    server.register(state_dir, python=str(python))
    code, answer = remote_dev(capfd, "probe", "--endpoint", "box")
    assert code == 1
    assert answer["error"]["code"] == "python_missing"
    assert f"its {python} is {python.parts[-3]}" in answer["error"]["message"]
    assert not (server.remote_home / ".vaws").exists()


def test_a_python_that_is_not_there_is_named(server: Server, state_dir: Path, capfd: Capture) -> None:
    server.register(state_dir, python="/no/such/python3")
    code, answer = remote_dev(capfd, "probe", "--endpoint", "box")
    assert code == 1
    assert answer["error"]["code"] == "python_missing"
    assert "it has no /no/such/python3" in answer["error"]["message"]


def test_a_newer_python_beside_the_old_one_is_used(tmp_path: Path, home: Path, state_dir: Path, capfd: Capture) -> None:
    folder = programs(tmp_path / "bin", python3=PRETENDER, python3_11=sys.executable)
    with open_server(tmp_path / "server", home, PATH=str(folder)) as server:
        server.register(state_dir)
        code, answer = remote_dev(capfd, "probe", "--endpoint", "box")
    assert (code, answer["outcome"]) == (0, "success")
    assert answer["worker"]["python"] == sys.version.split()[0]


def test_an_old_python_without_a_newer_one_is_named(
    tmp_path: Path, home: Path, state_dir: Path, capfd: Capture
) -> None:
    folder = programs(tmp_path / "bin", python3=PRETENDER)
    with open_server(tmp_path / "server", home, PATH=str(folder)) as server:
        server.register(state_dir)
        code, answer = remote_dev(capfd, "probe", "--endpoint", "box")
    assert code == 1
    assert answer["error"]["code"] == "python_missing"
    assert "its python3 is 3.6.15" in answer["error"]["message"]
