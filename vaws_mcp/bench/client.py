"""Running the benchmark client on the endpoint under a watch, and bringing its result here."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from vaws_mcp.bench.parse_metrics import Counters, Growth, growth
from vaws_mcp.bench.read import MAX_FILE_BYTES, local_text
from vaws_mcp.bench.watchdog import SLOWEST_LOOK_S, STALL_TIMEOUT_S, Stalled, Watched, look, read_counters
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, TimedOut
from vaws_mcp.core.files import write_atomic
from vaws_mcp.core.redact import redact_text
from vaws_mcp.core.sanitize import plain_text
from vaws_mcp.endpoint.channel import Answer
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.workspace.artifacts.models import PullRequest
from vaws_mcp.workspace.artifacts.transfers import begin

OUTPUT_BYTES = 200_000
READ_BYTES = 8 << 20
PULL_BOUND_S = 1800.0
VERSION_BOUND_S = 60.0
_TAIL_BYTES = 16_384
_SHOWN = 2000


@dataclass(frozen=True)
class ClientRun:
    """A client to run. Units: seconds. ``stall_timeout_s`` is how long nothing may move."""

    argv: list[str]
    env: Mapping[str, str]
    timeout_s: float
    stall_timeout_s: float = STALL_TIMEOUT_S


@dataclass
class ClientOutcome:
    """How a client ended. ``stalled`` says why it was ended by the watch; then its output is only the end of it.

    ``counted`` is what the service counted meanwhile, None when it cannot be known.
    """

    argv: list[str]
    out: str = ""
    err: str = ""
    exit_code: int | None = None
    signal_name: str | None = None
    timed_out: bool = False
    stalled: str | None = None
    timeout_s: float = 0.0
    duration_s: float = 0.0
    counted: Growth | None = None

    def evidence(self) -> dict[str, Any]:
        """Return what a failure of this client carries."""
        tails = {"console_tail": self.out[-_SHOWN:], "stderr_tail": self.err[-_SHOWN:]}
        return {"exit_code": self.exit_code, **{name: redact_text(text) for name, text in tails.items()}}

    def log_text(self) -> str:
        """Return command and output for a log file, secrets masked."""
        return redact_text(f"$ {' '.join(self.argv)}\n{self.out}\n--- stderr ---\n{self.err}")

    def failure(self, log: Path) -> Failure | None:
        """Return the failure of a client that did not end by itself, else None."""
        found: Failure | None = None
        if self.stalled:
            message = f"the benchmark client hung and was ended: {self.stalled}"
            found = TimedOut("bench_stalled", message)
            found.hint = "serve_logs shows what the service did; stall_timeout allows a longer silence."
        elif self.timed_out:
            message = f"the benchmark client did not end within {self.timeout_s:.0f} s and was ended"
            found = TimedOut("bench_timeout", message)
        elif self.signal_name:
            found = Failure("bench_killed", f"the benchmark client was ended by {self.signal_name}")
        if found is not None:
            found.layer, found.phase, found.fields = "remote_workload", "bench", self.evidence()
            found.refs, found.hint = {"bench_log": str(log)}, found.hint or f"The client's output is in {log}."
        return found


@dataclass
class _Output:
    """What a running client has printed: how much, and the end of it."""

    total: int = 0
    tails: dict[str, bytearray] = field(default_factory=dict[str, bytearray])

    def take(self, head: dict[str, Any], body: bytes) -> None:
        if head.get("event") != "output":
            return
        self.total += len(body)
        tail = self.tails.setdefault(str(head.get("stream")), bytearray())
        tail += body
        del tail[:-_TAIL_BYTES]

    def text(self, stream: str) -> str:
        return plain_text(bytes(self.tails.get(stream, b"")).decode("utf-8", "replace"))


async def run_client(endpoint: Endpoint, run: ClientRun, watched: Watched | None) -> ClientOutcome:
    """Run a client to its end and return how it ended; one that hangs is ended, with everything it started.

    Without a service to watch only ``timeout_s`` bounds it.

    Raises: Failure of the endpoint.
    """
    before = await _counters(endpoint, watched)
    output = _Output()
    outcome = ClientOutcome(run.argv, timeout_s=run.timeout_s)
    work = anyio.CancelScope()
    begin_s = time.monotonic()
    answer: Answer | None = None
    lost: Failure | None = None

    async def watch(watched: Watched) -> None:
        outcome.stalled = await _hangs(endpoint, watched, output, run.stall_timeout_s)
        work.cancel()

    async with anyio.create_task_group() as group:
        if watched is not None:
            group.start_soon(watch, watched)
        with work:
            try:
                answer = await endpoint.call(
                    "run",
                    _params(endpoint, run),
                    deadline_s=run.timeout_s + 30,
                    retry_safe=False,
                    on_event=output.take,
                )
            except Failure as failure:  # leaves the group by itself, not wrapped
                lost = failure
        group.cancel_scope.cancel()
    if lost is not None:
        raise lost
    outcome.duration_s = round(time.monotonic() - begin_s, 3)
    _note_end(outcome, answer, output)
    after = await _counters(endpoint, watched) if before else None
    outcome.counted = growth(before, after) if before and after else None
    return outcome


def _params(endpoint: Endpoint, run: ClientRun) -> dict[str, Any]:
    return {
        "argv": run.argv,
        "cwd": endpoint.config.workdir,
        "env": dict(run.env),
        "env_spec": endpoint.env_spec(),
        "timeout_s": run.timeout_s,
        "max_output_bytes": OUTPUT_BYTES,
        "stream": True,
    }


def _note_end(outcome: ClientOutcome, answer: Answer | None, output: _Output) -> None:
    if answer is None:
        outcome.out, outcome.err = output.text("stdout"), output.text("stderr")
        return
    ran = answer.result
    outcome.stalled = None  # it ended by itself before it could be ended
    split = ran["stdout"]["kept_head"] + ran["stdout"]["kept_tail"]
    parts = (answer.body[:split], answer.body[split:])
    outcome.out, outcome.err = (plain_text(part.decode("utf-8", "replace")) for part in parts)
    outcome.exit_code, outcome.signal_name = ran["exit_code"], ran["signal_name"]
    outcome.timed_out = ran["timed_out"]


async def _counters(endpoint: Endpoint, watched: Watched | None) -> Counters | None:
    """Return what the service has counted so far; a check that cannot be made is no failure."""
    if watched is None:
        return None
    try:
        return (await read_counters(endpoint, watched.target))[1]
    except Failure:
        return None


async def _hangs(endpoint: Endpoint, watched: Watched, output: _Output, stall_timeout_s: float) -> str:
    """Return why the client hangs, once it does."""
    pause = min(SLOWEST_LOOK_S, stall_timeout_s / 5)
    stalled = Stalled(stall_timeout_s, time.monotonic())
    while True:
        await anyio.sleep(pause)
        try:
            seen = await look(endpoint, watched, output.total)
        except Failure:
            continue  # the endpoint does not answer, which the call itself will notice
        why = stalled.note(seen, time.monotonic())
        if why is not None:
            return why


async def fetch_result(ctx: Context, endpoint: Endpoint, remote: str, local: Path) -> str | None:
    """Bring a result file here and return its text; None when there is none. A large one is never whole in a message.

    Raises: Failure of the endpoint.
    """
    limits = {"max_bytes": READ_BYTES, "max_line_bytes": READ_BYTES}
    try:
        answer = await endpoint.call("read", {"path": remote, **limits}, deadline_s=300.0)
    except Failure as failure:
        if failure.code != "not_found":
            raise
        return None
    if answer.result["size"] < READ_BYTES:
        write_atomic(local, answer.body)
        return answer.body.decode("utf-8", "replace")
    # It lies in our own directory, which the confinement of file operations does not concern.
    config = endpoint.config.model_copy(update={"root": None, "deny_paths": ()})
    local.parent.mkdir(parents=True, exist_ok=True)
    transfer = await begin(ctx, config, PullRequest(remote_path=remote, local_path=str(local)))
    await transfer.wait(ctx, PULL_BOUND_S)
    if not transfer.done.is_set():
        message = f"{remote} could not be brought here within {PULL_BOUND_S:.0f} s"
        raise TimedOut("transfer_timeout", message, layer="transport", hint="artifact_pull brings it.", phase="bench")
    return await anyio.to_thread.run_sync(local_text, str(local), MAX_FILE_BYTES)


async def client_version(endpoint: Endpoint, env: Mapping[str, str]) -> str | None:
    """Return the version of the vLLM that the client belongs to, as its package states it, else as it says itself."""
    params = {"env_spec": endpoint.env_spec()}
    try:
        found = (await endpoint.call("context", params, deadline_s=10.0)).result
        package = (found.get("packages") or {}).get("vllm") or {}
        if package.get("version"):
            return str(package["version"])
        asked: dict[str, Any] = {**params, "argv": ["vllm", "--version"], "env": dict(env)}
        asked |= {"cwd": endpoint.config.workdir, "timeout_s": VERSION_BOUND_S, "max_output_bytes": 4000}
        answer = await endpoint.call("run", asked, deadline_s=VERSION_BOUND_S + 10)
    except Failure:
        return None  # the next call notices an endpoint that is gone
    split = answer.result["stdout"]["kept_head"] + answer.result["stdout"]["kept_tail"]
    lines = plain_text(answer.body[:split].decode("utf-8", "replace")).split()
    return lines[-1] if answer.result["exit_code"] == 0 and lines else None
