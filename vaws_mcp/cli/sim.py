"""``sim-start``, ``sim-status``, ``sim-stop``: the simulated container."""

from functools import partial
from pathlib import Path
from typing import Any

from vaws_mcp.cli.commands import Parser, respond
from vaws_mcp.cli.output import print_json
from vaws_mcp.core.failures import Failure, Refused


def run(name: str, words: list[str]) -> int:
    """Carry out one of the three commands; each prints one JSON object."""
    from vaws_mcp import sim

    try:
        return {"sim-start": _start, "sim-status": _status, "sim-stop": _stop}[name](words)
    except sim.SimUnsupported as error:
        return respond(name, Refused("sim_unsupported", str(error)))
    except Failure as failure:
        return respond(name, failure)
    except (sim.SimError, OSError) as error:
        hint = "The state directory's sim/ folder holds its record and log."
        return respond(name, Failure("sim_failed", str(error), layer="local", hint=hint))


def _parser(name: str, description: str) -> Parser:
    parser = Parser(prog=f"remote-dev {name}", description=description)
    parser.add_argument("--json", action="store_true", help="Accepted for uniformity: the answer is always JSON.")
    return parser


def _state_dir() -> Path:
    from vaws_mcp.store.statedir import find_state_dir

    return find_state_dir()


def _start(words: list[str]) -> int:
    parser = _parser("sim-start", "Start the simulated container and register it as endpoint `sim`.")
    parser.add_argument("--devices", type=int, default=8, help="Number of NPUs (default: 8).")
    parser.add_argument("--layout", choices=("a2", "a3"), default="a2", help="npu-smi layout (default: a2).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the declared noise (default: 0).")
    parser.add_argument("--noise-run", type=float, default=0.02, help="Noise per iteration (default: 0.02).")
    parser.add_argument("--noise-launch", type=float, default=0.03, help="Noise per launch (default: 0.03).")
    parser.add_argument("--drift", type=float, default=0.05, help="Drift over the first 20 launches (default: 0.05).")
    parser.add_argument("--load-seconds", type=float, default=1.0, help="Time a model takes to load (default: 1).")
    parser.add_argument("--tpot-ms", type=float, default=20.0, help="Time per output token (default: 20).")
    parser.add_argument("--detach", action="store_true", help="Return when it is ready and leave it running.")
    given = parser.parse(words)
    from vaws_mcp import sim
    from vaws_mcp.endpoint.registry import load_endpoints

    if not 1 <= given.devices <= 64:
        raise Refused("devices_malformed", f"--devices must be between 1 and 64, not {given.devices}")
    options = sim.SimOptions(
        devices=given.devices,
        layout=given.layout,
        seed=given.seed,
        noise_run=given.noise_run,
        noise_launch=given.noise_launch,
        drift=given.drift,
        load_seconds=given.load_seconds,
        tpot_ms=given.tpot_ms,
    )
    state_dir = _state_dir()
    load_endpoints(state_dir)  # nothing is started that could not be registered
    if given.detach:
        _announce(state_dir, sim.start_detached(options, state_dir))
        return 0
    import anyio

    anyio.run(sim.serve, options, state_dir, partial(_announce, state_dir))
    return 0


def _announce(state_dir: Path, ready: dict[str, Any]) -> None:
    """Register the endpoint and print what a caller needs."""
    from vaws_mcp.endpoint.models import EndpointConfig
    from vaws_mcp.endpoint.registry import save_endpoint

    fields = ("host", "port", "user", "identity_file", "known_hosts", "python", "vllm_repo", "vllm_ascend_repo")
    known = {name: ready[name] for name in (*fields, "workdir", "model") if ready.get(name) is not None}
    save_endpoint(state_dir, EndpointConfig(name="sim", **known))
    print_json(ready)


def _status(words: list[str]) -> int:
    _parser("sim-status", "Show the simulated container.").parse(words)
    from vaws_mcp import sim

    print_json(sim.status(_state_dir()))
    return 0


def _stop(words: list[str]) -> int:
    _parser("sim-stop", "Stop the simulated container and every process in it.").parse(words)
    from vaws_mcp import sim
    from vaws_mcp.endpoint.registry import drop_endpoint

    state_dir = _state_dir()
    answer = sim.stop(state_dir)
    drop_endpoint(state_dir, "sim")
    print_json(answer)
    return 0
