from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from worker_client import Start, worker_argv

from vaws_mcp import worker as package
from vaws_mcp.worker.launch import SHIPPED_NAME, command_line

FOLDER = Path(package.__file__).parent


def python38() -> str:
    found = os.environ.get("VAWS_TEST_PYTHON38") or shutil.which("python3.8")
    if not found or subprocess.run([found, "--version"], check=False, timeout=30).returncode != 0:
        pytest.skip("no Python 3.8 found; name one in VAWS_TEST_PYTHON38")
    return found


def test_every_method_works_on_python_3_8(start: Start, tmp_path: Path) -> None:
    worker = start(worker_argv(python38()))
    assert worker.hello["python"].startswith("3.8.")
    path = str(tmp_path / "f")
    (tmp_path / "env.sh").write_text("export FROM_FILE=1\n")
    assert worker.call("write", {"path": path}, b"text\n").result["created"] is True
    assert worker.call("read", {"path": path}).body == b"text\n"
    assert worker.bash("echo $FROM_FILE", env_spec={"env_files": [str(tmp_path / "env.sh")]}).body == b"1\n"
    assert worker.call("probe").result["python"].startswith("3.8.")
    port = worker.call("free_port").result["port"]
    assert worker.call("http", {"port": port}).result["error"] == "refused"
    assert worker.call("ports", {"ports": [port]}).result["ports"][str(port)]["listening"] is False
    assert worker.bash("sleep 100 & sleep 100", timeout_s=0.1).result["drained"] == {"signalled": 3, "survivors": []}
    for tty in (False, True):
        params = {"argv": ["cat"], "yield_s": 0.0, "stdin_open": True, "tty": tty}
        job_id = worker.call("run", params).result["job_id"]
        assert worker.call("job.stdin", {"job_id": job_id}, b"in\n").result["written"] == 3
        assert worker.call("job.tail", {"job_id": job_id, "wait_s": 5.0}).body.startswith(b"in")
        assert worker.call("job.stop", {"job_id": job_id}).result["state"] == "exited"
        assert job_id in [job["job_id"] for job in worker.call("job.list").result["jobs"]]
    spec = {"execution_id": "e", "argv": ["sh", "-c", "echo out; sleep 100"]}
    assert worker.call("execution.submit", {"spec": spec}).result["created"] is True
    assert worker.call("execution.stop", {"execution_id": "e"}).result["resources_released"] is True
    assert worker.call("execution.tail", {"execution_id": "e"}).body == b"out\n"


def test_the_worker_imports_only_itself_and_the_standard_library() -> None:
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            elif isinstance(node, ast.ImportFrom):
                depth = len(path.relative_to(FOLDER).parts)
                assert node.level <= depth, f"{path} reaches out of the package"
            for name in names:
                assert name.partition(".")[0] in sys.stdlib_module_names, f"{path} imports {name}"


def test_the_directory_runs_under_its_shipped_name(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "shipped"
    shutil.copytree(FOLDER, root / SHIPPED_NAME, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')\n")
    worker = start(argv=command_line(sys.executable, str(root)), cwd=str(tmp_path))
    assert worker.bash("echo ${PYTHONPATH-none}").body == b"none\n"
    spec = {"execution_id": "e", "argv": ["true"]}
    assert worker.call("execution.submit", {"spec": spec}).result["created"] is True
    found = worker.call("execution.wait", {"execution_id": "e", "timeout_s": 10}).result
    assert found["exit"]["reason"] == "succeeded"
