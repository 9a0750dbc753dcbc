"""A real container, entered through a real SSH server and on this machine: the same calls, the same answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import podman
import processes
import pytest
import sshd

from vaws_mcp.catalog import BY_NAME
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="function")]

Answer = dict[str, Any]
PROGRESS_S = 15.0


class Box:
    """A caller that keeps its connection to the container."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    async def call(self, name: str, **arguments: Any) -> Answer:
        return await invoke(BY_NAME[name], {"endpoint": "inside", **arguments}, self.ctx)

    async def bash(self, command: str, **arguments: Any) -> Answer:
        return await self.call("remote_bash", command=command, **arguments)

    async def gone(self, pids: list[str]) -> bool:
        """Say whether the processes with these pids of the container have ended, or end soon.

        Its first process never waits for orphans, so they stay as zombies.
        """
        listed = " ".join(f"/proc/{int(pid)}/stat" for pid in pids)
        with anyio.move_on_after(PROGRESS_S) as waiting:
            while (await self.bash(f"cat {listed} 2>/dev/null | grep -v ') Z '"))["stdout"]:
                pass
        return not waiting.cancelled_caught

    async def taken(self, path: str) -> list[str]:
        """Wait for a file and return its words; it is removed."""
        with anyio.fail_after(PROGRESS_S):
            while not (answer := await self.bash(f"cat {path} && rm {path}"))["stdout"]:
                pass
        return answer["stdout"].split()


@dataclass(frozen=True)
class Inside:
    """An endpoint `inside` whose commands run in a container; ``server`` is the SSH server in front of it, if any."""

    name: str
    state_dir: Path
    server: sshd.Sshd | None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Box]:
        async with Resources() as resources:
            yield Box(Context(state_dir=self.state_dir, resources=resources, wait_s=45.0))


def host_fields(server: sshd.Sshd | None) -> dict[str, Any]:
    if server is None:
        return {}
    own = {"host": server.host, "port": server.port, "user": server.user}
    return {**own, "identity_file": str(server.identity_file), "known_hosts": str(server.known_hosts)}


def inside(folder: Path, name: str, server: sshd.Sshd | None) -> Inside:
    fields = {"name": "inside", "container": name, "runtime": "podman", **host_fields(server)}
    save_endpoint(folder, EndpointConfig.model_validate(fields))
    return Inside(name, folder, server)


@contextlib.contextmanager
def any_container() -> Generator[str]:
    if not podman.can_run():
        pytest.skip(podman.PODMAN_MISSING)
    with contextlib.ExitStack() as stack:
        try:
            name = stack.enter_context(podman.running_container())
        except podman.PodmanError as error:
            pytest.skip(f"this machine does not let podman start a container: {error}")
        yield name


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    with any_container() as name:
        yield name


@pytest.fixture
def own_container() -> Iterator[str]:
    """A container that a test may stop."""
    with any_container() as name:
        yield name


@pytest.fixture(scope="module", params=["ssh", "local"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd | None]:
    if request.param == "local":
        yield None
        return
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    with sshd.running_sshd(tmp_path_factory.mktemp("sshd") / "server") as running:
        yield running


@pytest.fixture
def place(container: str, server: sshd.Sshd | None, tmp_path: Path) -> Inside:
    return inside(tmp_path / "state", container, server)


def on_this_machine(path: str) -> bool:
    return Path(path).exists()


def namespaces() -> set[str]:
    return {str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("pid", "net")}


async def test_a_command_runs_inside_and_says_how_it_ended(place: Inside) -> None:
    async with place.open() as box:
        answer = await box.bash("echo out; echo err >&2; exit 3")
        killed = await box.bash("kill -KILL $$")
        first = await box.bash("tr '\\0' ' ' < /proc/1/cmdline")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 3)
    assert (killed["signal"], killed["exit_code"]) == ("SIGKILL", None)
    assert first["stdout"] == "/bin/sleep 3600 "


async def test_input_environment_and_directory_are_what_was_given(place: Inside) -> None:
    async with place.open() as box:
        answer = await box.bash(
            "cat; printf %s \"$WORD\"; pwd", stdin="grüße\n" * 5000, env={"WORD": "a 'b' $c"}, cwd="/var/tmp",
            max_output_bytes=1 << 20,
        )  # fmt: skip
        missing = await box.bash("pwd", cwd="/no/such/place")
    assert answer["stdout"] == "grüße\n" * 5000 + "a 'b' $c/var/tmp\n"
    assert missing["error"]["layer"] == "remote_env"


async def test_a_time_limit_ends_the_family_inside(place: Inside) -> None:
    async with place.open() as box:
        answer = await box.bash("sleep 300 & echo $!; setsid sleep 300 & echo $!; wait", timeout_ms=500)
        assert (answer["outcome"], answer["drained"]["survivors"]) == ("timeout", [])
        pids = answer["stdout"].split()
        assert len(pids) == 2
        assert await box.gone(pids)


async def test_a_cancelled_call_ends_the_command_inside(place: Inside) -> None:
    async with place.open() as box:
        pids: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(box.bash, "echo $$ > /tmp/new-pid; mv /tmp/new-pid /tmp/pid; sleep 300")
            pids = await box.taken("/tmp/pid")
            group.cancel_scope.cancel()
        assert await box.gone(pids)


async def test_a_lost_connection_leaves_no_process_inside(place: Inside) -> None:
    if place.server is None:
        pytest.skip("there is no connection to lose on this machine")
    answers: list[Answer] = []
    async with place.open() as box, place.open() as witness:

        async def endless() -> None:
            answers.append(await box.bash("setsid sleep 300 & echo $$ $! > /tmp/n; mv /tmp/n /tmp/lost; wait"))

        pids: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(endless)
            pids = await witness.taken("/tmp/lost")
            for process in processes.children(place.server.pid):
                processes.send(process, processes.signal.SIGKILL)
        assert answers[0]["error"]["code"] == "outcome_unknown"
        assert await box.gone(pids)


async def test_a_file_is_written_read_and_edited_inside(place: Inside) -> None:
    path = "/tmp/a folder of the container/file.sh"
    async with place.open() as box:
        written = await box.call("remote_write", file_path=path, content="one\ntwo\nthree\n")
        await box.bash(f"chmod 751 '{path}'")
        edited = await box.call("remote_edit", file_path=path, old_string="two", new_string="TWO")
        steps = [{"old_string": "one", "new_string": "1"}, {"old_string": "1\nTWO", "new_string": "1\n2"}]
        several = await box.call("remote_multi_edit", file_path=path, edits=steps)
        patch = "--- a/file.sh\n+++ b/file.sh\n@@ -1,3 +1,3 @@\n 1\n-2\n+zwei\n three\n"
        patched = await box.call("remote_apply_patch", patch=patch, cwd="/tmp/a folder of the container")
        read = await box.call("remote_read", file_path=path)
        mode = await box.bash(f"stat -c %a '{path}'")
    assert [written["outcome"], edited["outcome"], several["outcome"], patched["outcome"]] == ["success"] * 4
    assert (read["content"], mode["stdout"]) == ("1\nzwei\nthree\n", "751\n")
    assert not on_this_machine(path)


async def test_an_edit_that_does_not_fit_changes_nothing(place: Inside) -> None:
    async with place.open() as box:
        await box.call("remote_write", file_path="/tmp/same", content="a a\n")
        refused = await box.call("remote_edit", file_path="/tmp/same", old_string="a", new_string="b")
        read = await box.call("remote_read", file_path="/tmp/same")
    assert refused["outcome"] != "success"
    assert read["content"] == "a a\n"


async def test_searches_look_inside(place: Inside) -> None:
    async with place.open() as box:
        await box.bash("mkdir -p /srv/tree/deep; echo needle > /srv/tree/deep/one.py; echo hay > /srv/tree/two.txt")
        listed = await box.call("remote_ls", path="/srv/tree")
        globbed = await box.call("remote_glob", path="/srv/tree", pattern="**/*.py")
        grepped = await box.call("remote_grep", path="/srv/tree", pattern="needle")
    assert [entry["name"] for entry in listed["entries"]] == ["deep", "two.txt"]
    assert globbed["files"] == ["deep/one.py"]
    assert grepped["files"] == ["deep/one.py"]


async def test_a_tree_goes_in_and_comes_back(place: Inside, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (source / "deep" / "run.sh").chmod(0o755)
    (source / "big").write_bytes(bytes(range(256)) * 20_000)
    (source / "link").symlink_to("deep/run.sh")
    target = f"/srv/{tmp_path.name}"
    async with place.open() as box:
        pushed = await box.call("artifact_push", local_path=str(source), remote_path=target)
        again = await box.call("artifact_push", local_path=str(source), remote_path=target)
        pulled = await box.call("artifact_pull", local_path=str(back), remote_path=target)
    assert (pushed["outcome"], pushed["sent_files"], again["sent_files"]) == ("success", 2, 0), pushed
    assert pulled["outcome"] == "success"
    assert (back / "big").read_bytes() == (source / "big").read_bytes()
    assert (back / "deep" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (back / "link").readlink() == Path("deep/run.sh")
    assert not on_this_machine(target)


async def test_a_job_is_followed_and_stopped_inside(place: Inside) -> None:
    async with place.open() as box:
        started = await box.bash("echo $$; sleep 300", yield_time_ms=0)
        assert started["status"] == "running"
        job = started["job_id"]
        tail = await box.call("job_tail", job_id=job, wait_ms=10_000)
        stopped = await box.call("job_stop", job_id=job)
        assert stopped["outcome"] == "success"
        assert stopped["survivors"] == []
        assert await box.gone(tail["content"].split())
        after = await box.call("job_status", job_id=job)
    assert after["state"] == "exited"


async def test_a_probe_describes_the_container_and_not_the_host(place: Inside) -> None:
    async with place.open() as box:
        probe = await box.call("remote_probe")
        spaces = await box.bash("readlink /proc/self/ns/pid /proc/self/ns/net")
    assert probe["outcome"] == "success"
    assert f"container {place.name}" in probe["endpoint"]
    assert not set(spaces["stdout"].split()) & namespaces()


async def test_a_port_inside_is_forwarded(place: Inside) -> None:
    serve = 'python3 -c \'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], '
    serve += 'flush=True); c = s.accept()[0]; c.sendall(b"from inside"); c.close()\''
    async with place.open() as box:
        started = await box.bash(serve, yield_time_ms=0)
        tail = await box.call("job_tail", job_id=started["job_id"], wait_ms=10_000)
        forward = await box.call("remote_forward", remote_port=int(tail["content"]))
        assert forward["outcome"] == "success", forward
        stream = await anyio.connect_tcp("127.0.0.1", int(forward["forwards"][0]["local"].rpartition(":")[2]))
        async with stream:
            with anyio.fail_after(PROGRESS_S):
                assert await stream.receive() == b"from inside"


async def test_a_stopped_container_is_refused_by_name(
    own_container: str, server: sshd.Sshd | None, tmp_path: Path
) -> None:
    place = inside(tmp_path / "state", own_container, server)
    await anyio.to_thread.run_sync(lambda: podman.podman("stop", "-t", "0", own_container))
    async with place.open() as box:
        error = (await box.bash("touch /tmp/on-the-host"))["error"]
    assert (error["code"], error["layer"]) == ("container_unusable", "remote_env")
    assert own_container in error["message"]
    assert "not running" in error["message"]


async def test_an_unknown_container_is_refused_by_name(place: Inside) -> None:
    async with place.open() as box:
        error = (await box.bash("true", container="no-such-container"))["error"]
    assert error["code"] == "container_unusable"
    assert "no-such-container" in error["message"]


@pytest.mark.parametrize("name", ["-l", "--latest", "a b", "a;id", "$(id)", "../x", ""])
async def test_a_name_that_is_no_containers_is_refused(place: Inside, name: str) -> None:
    async with place.open() as box:
        answer = await box.bash("true", container=name)
    assert answer["outcome"] != "success"
    assert "container" in answer["error"]["message"]


async def test_a_missing_runtime_is_named(place: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    if place.server is not None:
        pytest.skip("the search path of the host is not ours")
    monkeypatch.setenv("PATH", "/nowhere")
    async with place.open() as box:
        error = (await box.bash("true"))["error"]
    assert error["code"] == "container_unusable"
    assert "podman cannot be run" in error["message"]
