"""The simulated ``vllm serve``: the API server process and the order in which a launch goes through its phases."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaws_mcp.sim.devices import visible_devices
from vaws_mcp.sim.engine import READY, TICK_S, Plan, spawn
from vaws_mcp.sim.http_server import HttpServer, Request
from vaws_mcp.sim.latency import LatencyModel, next_launch, read_tree
from vaws_mcp.sim.log import Log, write
from vaws_mcp.sim.metrics import Metrics
from vaws_mcp.sim.openai_api import GENERATE, Api, ApiConfig
from vaws_mcp.sim.serve_args import ServeArgs
from vaws_mcp.sim.settings import VLLM_VERSION, Settings, active_faults, read_settings

STOP_S = 3.0
DEAD_ENGINE_S = 4.0
STATS_S = 10.0
LOGO = """
       █     █     █▄   ▄█
 ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}
  █▄█▀ █     █     █     █  model   {model}
   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀
"""


class StartError(Exception):
    """A launch that cannot start; carries where the real program fails and its message."""

    def __init__(self, source: str, function: str, message: str) -> None:
        super().__init__(message)
        self.source = source
        self.function = function


@dataclass(frozen=True)
class ModelFacts:
    """What the model directory says."""

    architecture: str
    max_len: int


def _refuse(message: str, function: str = "create_engine_config", source: str = "engine/arg_utils.py") -> StartError:
    return StartError(source, function, message)


def read_model(args: ServeArgs) -> ModelFacts:
    """Check the model directory and the flags that depend on it.

    Raises: StartError with the text of the real program.
    """
    path = args.model
    if not Path(path).is_dir():
        if path.count("/") > 1 or path.startswith(("/", ".")):
            name = "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            raise _refuse(
                f"{name}'namespace/repo_name': '{path}'. Use `repo_type` argument if needed.", "__post_init__"
            )
        raise _refuse(f"OSError: {path} is not a local folder and is not a valid model identifier", "__post_init__")
    try:
        config: dict[str, Any] = json.loads((Path(path) / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _refuse(f"OSError: {path} does not appear to have a file named config.json.", "__post_init__") from None
    longest = int(config.get("max_position_embeddings", 4096))
    wanted = args.max_model_len or longest
    if wanted > longest and os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1":
        text = f"User-specified max_model_len ({wanted}) is greater than the derived max_model_len (max_position_"
        text += f"embeddings={float(longest)} or model_max_length=None in model's config.json)."
        head = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"
        raise _refuse(f"{head}\n  Value error, {text}", "create_model_config")
    heads = int(config.get("num_attention_heads", args.tp))
    if heads % args.tp:
        text = f"ValueError: Total number of attention heads ({heads}) must be divisible by tensor parallel size "
        raise _refuse(f"{text}({args.tp}).")
    return ModelFacts(str((config.get("architectures") or ["UnknownForCausalLM"])[0]), wanted)


def bind(host: str, port: int) -> socket.socket:
    """Bind the port, without listening yet, as vLLM does first of all.

    Raises: StartError when the port is taken or the address is not ours.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        text = f"OSError: [Errno {error.errno}] {os.strerror(error.errno or 0)}"
        raise StartError("entrypoints/launchers/launcher.py", "create_server_socket", text) from None
    return sock


def plan_engines(args: ServeArgs, settings: Settings, faults: frozenset[str]) -> list[Plan]:
    """Decide which devices each engine core takes.

    Raises: StartError when the visible devices do not suffice.
    """
    try:
        visible = visible_devices(settings.devices)
    except ValueError as error:
        raise StartError("platforms/interface.py", "set_device", f"RuntimeError: {error}") from None
    world = args.tp * args.pp
    if world * args.dp > len(visible):
        text = f"AssertionError: local_world_size ({world * args.dp}) must be less than or equal to the number of "
        raise StartError(
            "v1/executor/multiproc_executor.py", "_init_executor", f"{text}visible devices ({len(visible)})."
        )
    return [
        Plan(
            model=args.model,
            tp=world,
            devices=tuple(visible[index * world : (index + 1) * world]),
            dp=index if args.dp > 1 else None,
            eager=args.eager,
            faults=tuple(sorted(faults)),
        )
        for index in range(args.dp)
    ]


class Server:
    """One running API server with its engine cores."""

    def __init__(self, args: ServeArgs, api: Api, plans: list[Plan], log: Log) -> None:
        self.args = args
        self.api = api
        self.plans = plans
        self.log = log
        self.faults = frozenset(plans[0].faults)
        self.http = HttpServer(api.handle, self._access)
        self.engines: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
        self.ready: list[asyncio.Event] = []
        self.leave = asyncio.Event()
        self.status = 0

    async def run(self, listener: socket.socket) -> int:
        """Start the engines, serve until a signal or a dead engine, stop everything; returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        self.ready = [asyncio.Event() for _ in self.plans]
        self.engines = [spawn(plan) for plan in self.plans]
        tasks = [asyncio.create_task(self._watch(index)) for index in range(len(self.engines))]
        tasks += [asyncio.create_task(self._supervise()), asyncio.create_task(self._stats())]
        tasks.append(asyncio.create_task(self._start(listener)))
        await self.leave.wait()
        self.http.close()
        listener.close()
        for task in tasks:
            task.cancel()
        await self._stop_engines()
        return self.status

    async def _start(self, listener: socket.socket) -> None:
        for event in self.ready:
            await event.wait()
        log, port = self.log, listener.getsockname()[1]
        log.say("entry.py:136", "Supported tasks: ['generate']")
        log.say("entry.py:140", f"Starting vLLM server on http://{self.args.host}:{port}")
        log.say("launcher.py:186", "Available routes are:")
        for method, path in (*self.api.routes, *(("POST", path) for path in GENERATE)):
            log.say("launcher.py:195", f"Route: {path}, Methods: {method}")
        write(2, f"INFO:     Started server process [{os.getpid()}]\nINFO:     Waiting for application startup.\n")
        try:
            await self.http.start(listener)
        except OSError as error:
            # Two servers may bind one port; only one of them can listen on it.
            text = f"ERROR:    [Errno {error.errno}] error while attempting to bind on address "
            write(2, f"{text}('{self.args.host}', {port}): {os.strerror(error.errno or 0).lower()}\n")
            self.status = 1
            self.leave.set()
            return
        write(2, "INFO:     Application startup complete.\n")

    async def _watch(self, index: int) -> None:
        reader, _writer = await asyncio.open_connection(sock=self.engines[index][1])
        if await reader.readline() == READY:
            self.ready[index].set()
            await reader.read()
            self.api.engine_alive = False
            self.log.line(
                "ERROR", "core_client.py:598", "Engine core proc EngineCore died unexpectedly, shutting down client."
            )
            await asyncio.sleep(DEAD_ENGINE_S)
        else:
            label = "EngineCore" if self.plans[index].dp is None else f"EngineCore_DP{index}"
            text = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): "
            self.log.traceback("v1/engine/core_client.py", "wait_for_engine_startup", f"{text}{{'{label}': 1}}")
        self.status = 1
        self.leave.set()

    async def _supervise(self) -> None:
        settings = self.api.latency.settings
        while settings.supervised():  # noqa: ASYNC110 - /proc has no events to wait for
            await asyncio.sleep(TICK_S)
        os._exit(1)

    async def _stats(self) -> None:
        metrics, before = self.api.metrics, (0, 0)
        while True:
            await asyncio.sleep(STATS_S)
            now = (metrics.prompt_tokens, metrics.generation_tokens)
            if now != before or metrics.running:
                prompt, generation = ((b - a) / STATS_S for a, b in zip(before, now, strict=True))
                text = f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: "
                text += f"{generation:.1f} tokens/s, Running: {metrics.running} reqs, Waiting: {metrics.waiting} reqs, "
                self.log.say("loggers.py:335", f"{text}GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%")
            before = now

    def _on_signal(self) -> None:
        if "leave_orphans" in self.faults:
            os._exit(0)
        if "hang_on_stop" in self.faults:
            self.api.engine_alive = False
            self.http.close()
            write(2, "INFO:     Shutting down\nINFO:     Waiting for connections to close. (CTRL+C to force quit)\n")
            asyncio.get_running_loop().create_task(self._stop_engines())
            return
        self.log.say("launcher.py:279", "[shutdown] API server: engine client stopped")
        write(2, "INFO:     Shutting down\n")
        self.leave.set()

    async def _stop_engines(self) -> None:
        for process, _ in self.engines:
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + STOP_S
        pause = 0.005
        while any(process.poll() is None for process, _ in self.engines) and time.monotonic() < end:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        for process, _ in self.engines:
            if process.poll() is None:
                process.kill()

    def _access(self, request: Request, status: int) -> None:
        if self.args.access_log:
            reason = {200: "OK", 404: "Not Found", 400: "Bad Request"}.get(status, "Internal Server Error")
            write(1, f'INFO:     {request.peer} - "{request.method} {request.path} HTTP/1.1" {status} {reason}\n')


def _prepare(args: ServeArgs, log: Log) -> tuple[socket.socket, Api, list[Plan]]:
    settings = read_settings()
    listener = bind(args.host, args.port)
    model = read_model(args)
    log.say("model.py:733", f"Resolved architecture: {model.architecture}")
    log.say("model.py:2152", f"Using max model len {model.max_len}")
    try:
        tree = read_tree()
        faults = active_faults(settings) | frozenset(tree.faults)
    except ValueError as error:
        raise StartError("plugins/__init__.py", "load_plugins_by_group", f"ValueError: {error}") from None
    plans = plan_engines(args, settings, faults)
    latency = LatencyModel(settings, tree, next_launch(settings.root))
    config = ApiConfig(args.served, args.model, model.max_len, args.max_num_seqs, "half_fail" in faults)
    return listener, Api(config, latency, Metrics(args.served[0], args.draft_tokens)), plans


def main(args: ServeArgs) -> int:
    """Run the server; returns the exit status."""
    log = Log("APIServer")
    log.say("api_utils.py:347", LOGO.format(version=VLLM_VERSION, model=args.model).rstrip("\n"))
    log.say("api_utils.py:286", f"non-default args: {args.shown()}")
    try:
        listener, api, plans = _prepare(args, log)
    except StartError as error:
        log.traceback(error.source, error.function, str(error))
        return 1
    with listener:
        return asyncio.run(Server(args, api, plans, log).run(listener))
