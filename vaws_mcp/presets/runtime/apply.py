"""Carrying a plan out, command by command, each with a log of its own."""

from pathlib import Path
from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, Failure, TimedOut
from vaws_mcp.core.files import write_atomic
from vaws_mcp.core.redact import redact_text
from vaws_mcp.core.sanitize import one_line, plain_text
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.presets.runtime.look import inspected
from vaws_mcp.presets.runtime.plan import Plan, Step, clean_steps, shown
from vaws_mcp.store.records import dump_json

MAX_OUTPUT = 4 << 20


async def carry_out(ctx: Context, endpoint: Endpoint, plan: Plan, run_dir: Path, logs: list[str]) -> None:
    """Run all steps in order. The names of the logs are added as they come; each step is on disk before the next.

    Raises: Failure ``step_failed``, TimedOut ``step_timeout``; Blocked ``tree_changed`` when the tree of vllm-ascend
    has become another one since it was looked at.
    """
    steps = plan.steps
    for number, planned in enumerate(steps, 1):
        await ctx.progress(planned.kind, f"{number} of {len(steps)}: {one_line(shown(planned).command)}")
        step = await _still_right(endpoint, plan) if planned.kind == "clean" else planned
        if step is not None:
            log = run_dir / "steps" / f"{number}-{step.kind}.log"
            logs.append(str(log))
            record = await _run(endpoint, step, log)
            write_atomic(log.with_suffix(".json"), dump_json(record))
        await ctx.advance(planned.kind, f"{number} of {len(steps)}: done")


async def _still_right(endpoint: Endpoint, plan: Plan) -> Step | None:
    """Look again before anything is removed: what is removed is what lies there now, in the tree that was meant.

    Returns: the command with the artifacts of this moment, or None when there are none any more.
    Raises: Blocked ``tree_changed``.
    """
    tree = await inspected(endpoint)
    why = tree if isinstance(tree, str) else changed_since(plan.tree or {}, tree)
    if why is not None or isinstance(tree, str):
        hint = "Nothing was removed. Look at the tree, then repeat."
        raise Blocked("tree_changed", str(why), layer="remote_env", phase="clean", hint=hint, retry_safe=True)
    return next(iter(clean_steps(tree)), None)


def changed_since(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Return why a tree is no longer the one that was planned for, or None."""
    other = [name for name in ("repo", "commit", "remotes") if before.get(name) != now.get(name)]
    return f"{now['repo']} has changed since the plan was made: {', '.join(other)}" if other else None


async def _run(endpoint: Endpoint, step: Step, log: Path) -> dict[str, Any]:
    params: dict[str, Any] = {
        "argv": list(step.argv),
        "env": dict(step.env),
        "env_spec": endpoint.env_spec(),
        "timeout_s": step.timeout_s,
        "max_output_bytes": MAX_OUTPUT,
    }
    body = step.stdin.encode()
    answer = await endpoint.call("run", params, body=body, deadline_s=step.timeout_s + 30, retry_safe=False)
    ran = answer.result
    split = ran["stdout"]["kept_head"] + ran["stdout"]["kept_tail"]
    out, err = (plain_text(part.decode("utf-8", "replace")) for part in (answer.body[:split], answer.body[split:]))
    write_atomic(log, redact_text(f"$ {step.command}\n{out}\n--- stderr ---\n{err}").encode())
    if ran["timed_out"] or ran["exit_code"] != 0:
        raise _failed(step, ran, redact_text(err.strip() or out.strip()), log)
    return {**shown(step).model_dump(mode="json"), "exit_code": 0, "duration_ms": ran["duration_ms"], "log": str(log)}


def _failed(step: Step, ran: dict[str, Any], said: str, log: Path) -> Failure:
    more: dict[str, Any] = {
        "layer": "remote_env",
        "phase": step.kind,
        "fields": {"failed_step": shown(step).model_dump(mode="json"), "output_tail": said[-2000:]},
        "refs": {"step_log": str(log)},
        "retry_safe": True,
        "hint": f"The whole output is in {log}. After correcting the cause call again: what is done is not repeated.",
    }
    if ran["timed_out"]:
        return TimedOut("step_timeout", f"{step.kind} did not end within {step.timeout_s:.0f} s and was ended", **more)
    how = f"exit code {ran['exit_code']}" if ran["exit_code"] is not None else str(ran["signal_name"])
    last = one_line((said.splitlines() or [""])[-1])
    return Failure("step_failed", f"{step.kind} failed ({how}): {last}", **more)
