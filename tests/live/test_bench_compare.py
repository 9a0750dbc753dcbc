"""The main job on real software: OpenSSH, a real `vllm serve` on CPU, a real `vllm bench serve`, a real MCP client."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
import vllm_recipe
from install_vllm import Environment
from mcp import Client, StdioServerParameters
from sshd import Sshd

pytestmark = pytest.mark.live

GIT_ENV = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@localhost",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@localhost",
}


def git(repo: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", str(repo), *args], env=GIT_ENV, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def source_tree(tmp_path: Path) -> Path:
    """A git tree with two commits that stands in for vllm-ascend."""
    repo = tmp_path / "vllm-ascend"
    repo.mkdir()
    git(repo, "init", "--quiet", "--initial-branch=main")
    for text in ("first", "second"):
        (repo / "marker.txt").write_text(text, encoding="utf-8")
        git(repo, "add", "marker.txt")
        git(repo, "commit", "--quiet", "-m", text)
    return repo


def write_endpoint(state_dir: Path, ssh_server: Sshd, place: Environment, repo: Path) -> None:
    state_dir.mkdir(parents=True)
    lines = [
        "[real]",
        f'host = "{ssh_server.host}"',
        f"port = {ssh_server.port}",
        f'user = "{ssh_server.user}"',
        f'identity_file = "{ssh_server.identity_file}"',
        f'known_hosts = "{ssh_server.known_hosts}"',
        f'venv = "{place.path}"',
        f'vllm_ascend_repo = "{repo}"',
        f'workdir = "{state_dir}"',
    ]
    (state_dir / "endpoints.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def vllm_processes(folder: Path) -> list[str]:
    """Return the titles of the live vLLM processes that were started in the folder (zombies do not count).

    Others of this machine are left out: somebody else may serve, or show the demonstration, at the same time.
    """
    found: list[str] = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if not (process / "cwd").readlink().is_relative_to(folder):
                continue
            title = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if title.startswith("VLLM::") or "vllm serve" in title:
            found.append(f"{process.name} {title}")
    return found


async def call(client: Client, tool: str, arguments: dict[str, Any], seen: list[str]) -> dict[str, Any]:
    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")

    result = await client.call_tool(tool, arguments, progress_callback=note)
    return orjson.loads(getattr(result.content[0], "text", ""))


@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_bench_compare_measures_two_refs_on_a_real_server_and_leaves_nothing(
    tmp_path: Path, ssh_server: Sshd, vllm_environment: Environment, source_tree: Path
) -> None:
    state_dir = tmp_path / ".vaws-local"
    write_endpoint(state_dir, ssh_server, vllm_environment, source_tree)
    variables = vllm_recipe.variables(vllm_environment)
    seen: list[str] = []
    alive: list[str] = []
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "vaws_mcp"], env={**os.environ, "VAWS_STATE_DIR": str(state_dir)}
    )
    with anyio.fail_after(550):
        async with Client(server) as client:
            task = await call(client, "task_create", {"slug": "live", "endpoint": "real"}, seen)
            arguments = {
                "context_file": task["context_file"],
                "model": str(vllm_environment.model),
                "served_model_name": vllm_recipe.SERVED_MODEL_NAME,
                "state": ["older=HEAD~1", "newer=main"],
                "runs": 2,
                "warmup_runs": 1,
                "serve_args": list(vllm_recipe.SERVE_FLAGS),
                "bench_args": list(vllm_recipe.BENCH_FLAGS),
                "extra_env": variables,
                "health_timeout": vllm_recipe.READY_TIMEOUT_S,
                "bench_timeout": vllm_recipe.BENCH_TIMEOUT_S,
                "wait_s": 500,  # only this call looks at the processes meanwhile
            }

            async def look(progress: float, total: float | None, message: str | None) -> None:
                seen.append(message or "")
                if "run 2 of 2" in (message or ""):
                    alive.extend(vllm_processes(tmp_path))

            result = await client.call_tool("bench_compare", arguments, progress_callback=look)
            answer = orjson.loads(getattr(result.content[0], "text", ""))
            while answer.get("status") == "running":
                answer = await call(client, "run_wait", {"run_id": answer["run_id"]}, seen)
            finished = await call(client, "task_finish", {"context_file": task["context_file"]}, seen)
    answer = answer.get("result", answer)

    assert answer["outcome"] == "success", answer
    assert [row["state"] for row in answer["comparison"]] == ["older", "newer"]
    assert all(row["output_throughput"] > 0 and row["mean_tpot_ms"] > 0 for row in answer["comparison"])
    shas = [state["sha"] for state in answer["state_results"]]
    assert shas == [git(source_tree, "rev-parse", "main~1"), git(source_tree, "rev-parse", "main")]
    assert all(state["aggregated"]["count"] == 1 for state in answer["state_results"])
    assert "simulated" not in answer
    assert git(source_tree, "symbolic-ref", "--short", "HEAD") == "main"
    assert any("newer: run 2 of 2" in message for message in seen)
    assert finished["outcome"] == "success"
    assert finished["stopped"] == []
    assert any("VLLM::" in title for title in alive)
    assert vllm_processes(tmp_path) == []
