"""The processes below the API server: engine cores, and workers that hold the devices.

Each process has a socket to its parent as standard input. A child writes ``ready`` to it, and leaves when it closes.
The processes carry vLLM's titles, which replace their command lines.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from vaws_mcp.sim.devices import HBM_MB, hold, list_devices
from vaws_mcp.sim.log import Log, write
from vaws_mcp.sim.settings import Settings, read_settings

READY = b"ready\n"
TICK_S = 1.0
STOP_S = 1.0
CONTEXT_MB = 1100
UTILIZATION = 0.9
PACKAGE_PARENT = str(Path(__file__).parents[2])


@dataclass(frozen=True)
class Plan:
    """What one engine core or worker has to be; ``rank`` is None for an engine core, ``dp`` for a single engine."""

    model: str
    tp: int
    devices: tuple[int, ...]
    dp: int | None = None
    rank: int | None = None
    eager: bool = False
    memory_mb: int = int(HBM_MB * UTILIZATION) - 3500
    faults: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The title without its ``VLLM::`` prefix, as it appears in log lines."""
        if self.rank is None:
            return "EngineCore" if self.dp is None else f"EngineCore_DP{self.dp}"
        return f"Worker_TP{self.rank}" if self.dp is None else f"Worker_DP{self.dp}_TP{self.rank}"


def spawn(plan: Plan) -> tuple["subprocess.Popen[bytes]", socket.socket]:
    """Start a child process for the plan; returns it and our end of its socket."""
    ours, theirs = socket.socketpair()
    code = f"import sys; sys.path.append({PACKAGE_PARENT!r}); from vaws_mcp.sim.engine import main; main()"
    with theirs:
        child = subprocess.Popen([sys.executable, "-c", code, json.dumps(asdict(plan))], stdin=theirs.fileno())
    return child, ours


class Process:
    """What engine cores and workers have in common."""

    def __init__(self, plan: Plan) -> None:
        import setproctitle

        self.plan = plan
        self.settings: Settings = read_settings()
        self.parent = socket.socket(fileno=os.dup(0))
        self.log = Log(plan.label)
        setproctitle.setproctitle(f"VLLM::{plan.label}")

    def wait(self, seconds: float, others: tuple[socket.socket, ...] = ()) -> list[socket.socket]:
        """Wait for the parent, other sockets or the time; leaves when the parent or the container is gone."""
        ignore_parent = self.plan.rank is None and "leave_orphans" in self.plan.faults
        watched = [*others] if ignore_parent else [self.parent, *others]
        readable: list[socket.socket] = select.select(watched, [], [], max(0.0, seconds))[0]
        if self.parent in readable or not self.settings.supervised():
            sys.exit(0)
        return readable

    def sleep(self, seconds: float) -> None:
        """Wait for the time, in ticks short enough to notice the end of the container."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.wait(min(left, TICK_S))

    def rest(self) -> NoReturn:
        """Do nothing until there is a reason to leave."""
        while True:
            self.wait(TICK_S)


def run_worker(plan: Plan) -> NoReturn:
    """Be one worker: take a device, load, tell the engine, and hold the device until the end."""
    me = Process(plan)
    device = plan.devices[plan.rank or 0]
    entry = hold(me.settings.root, device, CONTEXT_MB)
    try:
        _load(me, device)
        me.parent.sendall(READY)
        me.rest()
    finally:
        entry.unlink(missing_ok=True)


def _load(me: Process, device: int) -> None:
    plan, load, log = me.plan, me.settings.load_seconds, me.log
    first = plan.rank == 0
    log.say("model_runner_v1.py:2210", f"Starting to load model {plan.model}...")
    me.sleep(load * 0.1)
    if first:
        _shards(25)
    if "never_ready" in plan.faults:
        me.rest()
    me.sleep(load * 0.2)
    if "die_loading" in plan.faults and first:
        raise OutOfMemoryError(device)
    if first:
        _shards(100)
        log.say("default_loader.py:501", f"Loading weights took {load * 0.3:.2f} seconds")
    log.say("model_runner_v1.py:2236", "Loading model weights took 14.2488 GB")
    hold(me.settings.root, device, 16000)
    if not plan.eager:
        me.sleep(load * 0.2)
        if first:
            log.say(
                "backends.py:548",
                "Using cache directory: /root/.cache/vllm/torch_compile_cache for vLLM's torch.compile",
            )
            log.say("monitor.py:34", f"torch.compile takes {load * 0.2:.2f} s in total")
    log.say("worker.py:300", "Available KV cache memory: 31.07 GiB")
    hold(me.settings.root, device, plan.memory_mb)
    if not plan.eager:
        me.sleep(load * 0.2)
        if first:
            log.say("model_runner_v1.py:3011", f"Graph capturing finished in {load * 0.2:.0f} secs, took 0.41 GiB")


def _shards(percent: int) -> None:
    done = percent * 4 // 100
    write(2, f"\rLoading safetensors checkpoint shards: {percent:3d}% Completed | {done}/4 [00:00<00:00,  6.12it/s]\n")


class OutOfMemoryError(Exception):
    """The device has no memory left, in the words of torch_npu."""

    def __init__(self, device: int) -> None:
        super().__init__(
            f"torch.OutOfMemoryError: NPU out of memory. Tried to allocate 1.46 GiB (NPU {device}; 60.97 GiB total "
            "capacity; 57.10 GiB already allocated; 57.10 GiB current active; 1.02 GiB free; 57.42 GiB reserved in "
            "total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
            "fragmentation."
        )


def _occupied(me: Process) -> str | None:
    settings = me.settings
    devices = list_devices(settings.root, settings.devices, settings.layout)
    for device in (devices[index] for index in me.plan.devices):
        free, total = (HBM_MB - device.used_mb) / 1024, 62423 / 1024
        if device.holders and free < total * UTILIZATION:
            return (
                f"ValueError: Free memory on device ({free:.2f}/{total:.2f} GiB) on startup is less than desired GPU "
                f"memory utilization ({UTILIZATION}, {total * UTILIZATION:.2f} GiB). Decrease GPU memory utilization "
                "or reduce GPU memory used by other processes."
            )
    return None


def _fail_start(me: Process, message: str) -> NoReturn:
    lines = ["EngineCore failed to start.", "Traceback (most recent call last):", message]
    me.log.error_traceback("core.py:866", lines)
    sys.exit(1)


class Engine:
    """One engine core with its workers."""

    def __init__(self, plan: Plan) -> None:
        self.me = Process(plan)
        self.workers: list[tuple[subprocess.Popen[bytes], socket.socket]] = []

    def run(self) -> NoReturn:
        """Start the workers, tell the API server when all are ready, and stay until the end."""
        me, plan = self.me, self.me.plan
        me.log.say("core.py:133", f"Initializing a V1 LLM engine (v0.32.0) with config: model='{plan.model}'")
        if message := _occupied(me):
            _fail_start(me, message)
        try:
            started = time.monotonic()
            self.workers = [spawn(replace(plan, rank=rank)) for rank in range(plan.tp)]
            self._wait_for_workers()
            me.log.say("kv_cache_utils.py:2327", "GPU KV cache size: 451,200 tokens")
            took = time.monotonic() - started
            me.log.say("core.py:402", f"init engine (profile, create kv cache, warmup model) took {took:.2f} s")
            me.parent.sendall(READY)
            self._watch()
        finally:
            self._stop_workers()

    def _wait_for_workers(self) -> None:
        waiting = [sock for _, sock in self.workers]
        while waiting:
            for sock in self.me.wait(TICK_S, tuple(waiting)):
                if sock.recv(64) != READY:
                    _fail_start(self.me, "RuntimeError: Worker failed with error, please check the stack trace above")
                waiting.remove(sock)

    def _watch(self) -> NoReturn:
        sockets = tuple(sock for _, sock in self.workers)
        while not self.me.wait(TICK_S, sockets):
            pass
        self.me.log.line("ERROR", "multiproc_executor.py:288", "Worker proc died unexpectedly, shutting down executor.")
        sys.exit(1)

    def _stop_workers(self) -> None:
        for _, sock in self.workers:
            sock.close()
        end = time.monotonic() + STOP_S
        for worker, _ in self.workers:
            try:
                worker.wait(max(0.01, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait(STOP_S)


def _leave(number: int, frame: Any) -> NoReturn:
    del number, frame
    sys.exit(0)


def main() -> NoReturn:
    """Be the process that the JSON object in the first argument describes."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    values: dict[str, Any] = json.loads(sys.argv[1])
    devices, faults = tuple(values.pop("devices")), tuple(values.pop("faults"))
    plan = Plan(devices=devices, faults=faults, **values)
    if plan.rank is None:
        Engine(plan).run()
    try:
        run_worker(plan)
    except OutOfMemoryError as error:
        Log(plan.label).error_traceback("multiproc_executor.py:772", ["WorkerProc failed to start.", str(error)])
        sys.exit(1)
