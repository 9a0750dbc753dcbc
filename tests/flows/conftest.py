"""One fast simulated container without noise for all stories, and a task of its own for each."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from flow_world import COMMAND, SIM_OPTIONS, Cli, Task, World, commit_stream, surroundings
from mcp import Client, StdioServerParameters

FAULTS = ("never_ready", "die_loading", "hang_on_stop", "leave_orphans", "half_fail")


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    state_dir = tmp_path_factory.mktemp("flows") / ".vaws-local"
    cli = Cli(state_dir)
    started = cli("sim-start", "--detach", *SIM_OPTIONS)
    try:
        assert started.code == 0, started.stderr
        world = World(state_dir, started.answer)
        # `endless` needs 3 s a token; `fault-X` behaves like the fault X.
        history = commit_stream("endless", {"decode_scale": 300.0})
        history += "".join(commit_stream(f"fault-{name}", {"faults": [name]}) for name in FAULTS)
        world.git("fast-import", "--quiet", stdin=history)
        yield world
    finally:
        stopped = cli("sim-stop")
    assert stopped.answer["stopped"]


@pytest.fixture
def world(container: World) -> Iterator[World]:
    """The container, which every story leaves as it found it."""
    container.assert_clean()
    yield container
    container.assert_clean()


@pytest.fixture
def cli(world: World) -> Cli:
    return world.cli


@pytest.fixture
def task(world: World) -> Iterator[Task]:
    """An open task; what the story leaves running is stopped with it."""
    task = world.new_task("story")
    yield task
    finished = world.cli("task-finish", "--stop", "--context-file", task.context_file)
    assert finished.code == 0, finished.answer


@pytest.fixture
def mcp(world: World) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """Makes clients, each with a server of its own over stdio. They are opened inside the test."""

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Client]:
        words, env = [*COMMAND[1:], "mcp"], surroundings(world.state_dir)
        parameters = StdioServerParameters(command=COMMAND[0], args=words, env=env)
        async with Client(parameters) as client:
            yield client

    return connect
