"""The simulated ``vllm`` command."""

import sys

from vaws_mcp.sim.settings import VLLM_VERSION


def main() -> int:
    """Run the subcommand in the process's arguments; returns the exit status."""
    words = sys.argv[1:]
    if words in (["-v"], ["--version"]):
        sys.stdout.write(f"{VLLM_VERSION}\n")
        return 0
    if words[:1] == ["serve"]:
        from vaws_mcp.sim.api_server import main as serve
        from vaws_mcp.sim.serve_args import parse as parse_serve

        return serve(parse_serve(words[1:]))
    if words[:2] == ["bench", "serve"]:
        from vaws_mcp.sim.bench import main as bench
        from vaws_mcp.sim.bench_args import parse as parse_bench

        return bench(parse_bench(words[2:]))
    if words[:1] == ["bench"] and words[1:2] in (["latency"], ["throughput"]):
        from vaws_mcp.sim import bench_engine

        args, engine = bench_engine.parse(words[1], words[2:])
        return bench_engine.main(words[1], args, engine)
    from vaws_mcp.sim.serve_args import USAGE

    what = "argument subparser: invalid choice" if words else "a subcommand is required"
    known = "'serve' and 'bench serve|latency|throughput'"
    detail = f": {' '.join(words[:2])!r} (the simulated container has {known})" if words else ""
    sys.stderr.write(f"{USAGE}vllm: error: {what}{detail}\n")
    return 2
