"""What ``nightly_show`` answers, for people."""

import shlex
from typing import Any


def for_people(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with its cases as text."""
    return {**answer, "cases": "\n".join(line for case in answer["cases"] for line in _case(case))}


def _case(case: dict[str, Any]) -> list[str]:
    lines = [f"{case['name']}: {case['model'] or 'no model'}"]
    why = case["unsupported"] or "; ".join(case["problems"])
    if why:
        lines.append(f"  cannot be used: {why}")
    names = ("tp", "dp", "port", "served_model_name")
    fields = [f"{name} {case[name]}" for name in names if case[name] is not None]
    lines += [f"  {', '.join(fields)}"] if fields else []
    lines += [f"  env: {shlex.join(f'{name}={value}' for name, value in case['env'].items())}"] if case["env"] else []
    lines += [f"  serve_args: {shlex.join(case['serve_args'])}"] if case["serve_args"] else []
    for block in case["blocks"]:
        lines.append(f"  {block['name']} ({block['case_type'] or 'no case_type'}): {shlex.join(block['bench_args'])}")
        lines += [f"    another workload: {block['derived']}"] if block["derived"] else []
        lines += [f"    {note}" for note in block["notes"]]
    lines += [f"  {note}" for note in case["notes"]]
    left = [*case["not_carried_over"], *(item for block in case["blocks"] for item in block["not_carried_over"])]
    lines += [f"  not carried over: {item['name']}: {item['why']}" for item in left]
    return lines
