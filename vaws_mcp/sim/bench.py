"""The simulated ``vllm bench serve``: really sends the load and writes the result as vLLM 0.32 does."""

import argparse
import asyncio
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from vaws_mcp.sim.bench_args import UsageError, check, key_values, sampling
from vaws_mcp.sim.bench_client import Target, get
from vaws_mcp.sim.bench_load import Load, Progress, sample, speculation_between, speculation_counters, target_of
from vaws_mcp.sim.bench_report import DETAILED, Run, console, result
from vaws_mcp.sim.settings import active_faults, read_settings

MAX_ERRORS_SHOWN = 10


async def _first_model(target: Target) -> str:
    _, body = await get(target, "/v1/models")
    return str(json.loads(body)["data"][0]["id"])


async def _benchmark(args: argparse.Namespace, dead: bool) -> tuple[Run, str]:
    target = target_of(args)
    name = args.model or await _first_model(target)
    prompts = sample(args)
    load = Load(args, target, args.served_model_name or name, dead)
    if "temperature" not in sampling(args):
        print(
            "WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. The default will "
            "be determined on the server side and can be model/API specific. For the old behavior, include "
            "--temperature=0."
        )
    await load.wait_ready(prompts[0])
    if args.num_warmups > 0:
        print(f"Warming up with {args.num_warmups} requests...")
        await load.run((prompts[:1] * args.num_warmups), "warmup-", lambda: None)
        print("Warmup run completed.")
    print("Starting main benchmark run...")
    kind = "Poisson process" if args.burstiness == 1.0 else "Gamma distribution"
    print(f"Traffic request rate: {args.request_rate}\nBurstiness factor: {args.burstiness} ({kind})")
    print(f"Maximum request concurrency: {args.max_concurrency}", flush=True)
    before = await speculation_counters(target)
    progress = Progress(len(prompts), args.disable_tqdm)
    began = time.perf_counter()
    outcomes = await load.run(prompts, args.request_id_prefix, progress.step)
    duration = time.perf_counter() - began
    return Run(args, outcomes, began, duration, speculation_between(before, await speculation_counters(target))), name


def _head(args: argparse.Namespace, model: str, date: str) -> dict[str, Any]:
    rate = args.request_rate if args.request_rate != math.inf else "inf"
    head: dict[str, Any] = {"date": date, "endpoint_type": args.backend, "backend": args.backend, "label": args.label}
    head |= {"model_id": model, "tokenizer_id": args.tokenizer or model, "num_prompts": args.num_prompts}
    head |= key_values(args.metadata)
    return head | {"request_rate": rate, "burstiness": args.burstiness, "max_concurrency": args.max_concurrency}


def _save(args: argparse.Namespace, model: str, date: str, fields: dict[str, Any]) -> None:
    limit = f"-concurrency{args.max_concurrency}" if args.max_concurrency is not None else ""
    name = args.result_filename or (
        f"{args.label or args.backend}-{args.request_rate}qps{limit}-{Path(model).name}-{date}.json"
    )
    folder = Path(args.result_dir or "")
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in fields.items() if args.save_detailed or key not in DETAILED}
    with (folder / name).open("a+" if args.append_result else "w", encoding="utf-8") as file:
        if args.append_result and file.tell():
            file.write("\n")
        json.dump(kept, file)


def _report(run: Run, model: str) -> None:
    date = time.strftime("%Y%m%d-%H%M%S")
    errors = [outcome.error for outcome in run.outcomes if outcome.error]
    if errors:
        print(f"Failed requests during benchmark run detected (capping to {MAX_ERRORS_SHOWN}):")
        for index, error in enumerate(errors[:MAX_ERRORS_SHOWN]):
            print(f"Error {index}: {error}")
    if len(errors) == len(run.outcomes):
        sys.stderr.write(
            "UserWarning: All requests failed. This is likely due to a misconfiguration on the benchmark arguments.\n"
        )
    fields = result(run, _head(run.args, model, date))
    print("tip: install termplotlib and gnuplot to plot the metrics")
    print("\n".join(console(run, fields)), flush=True)
    if run.args.save_result or run.args.append_result:
        _save(run.args, model, date, fields)


def main(args: argparse.Namespace) -> int:
    """Run the benchmark; like the real program, failed requests alone do not make the status non-zero."""
    print(args)
    try:
        check(args)
        dead = "bench_zero" in active_faults(read_settings())
        run, model = asyncio.run(_benchmark(args, dead))
        _report(run, model)
    except UsageError as error:
        sys.stdout.flush()
        sys.stderr.write(f"Traceback (most recent call last):\n{error}\n")
        return 1
    except (OSError, ValueError) as error:
        sys.stdout.flush()
        sys.stderr.write(f"Traceback (most recent call last):\n{type(error).__name__}: {error}\n")
        return 1
    return 0
