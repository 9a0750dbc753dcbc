"""`bench_read`: files of anyone, what is wrong with them, and large ones within bounded memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.bench.parse_result import read_result
from vaws_mcp.bench.read import read_files
from vaws_mcp.bench.read_models import BenchReadRequest, BenchReadResult
from vaws_mcp.bench.read_operations import bench_read, check_read
from vaws_mcp.bench.requested import Asked, arguments_of, asked_tokens, shortfall
from vaws_mcp.bench.result_objects import ParseFailure, read_objects
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Refused

SAMPLES = Path(__file__).parents[2] / "samples" / "vllm_bench"
MOST_RSS_MB = 400
DETAILED: dict[str, Any] = {
    "num_prompts": 2,
    "completed": 2,
    "failed": 0,
    "total_output_tokens": 4,
    "total_input_tokens": 4,
    "request_throughput": 1.0,
    "output_throughput": 2.0,
    "total_token_throughput": 4.0,
    "mean_ttft_ms": 3.5,
    "input_lens": [2, 2],
    "ttfts": [0.1, 0.2],
    "itls": [[0.1], []],
    "generated_texts": ['a"]}', "b"],
    "errors": ["", ""],
}
SCRIPT = """
import sys
from vaws_mcp.cli.main import main
code = main(["bench-read", sys.argv[1]])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(code, int(peak.split()[1]) // 1024, file=sys.stderr)
"""
# Not getrusage: a program that a large process starts inherits that one's peak.


def sample(name: str) -> str:
    return str(SAMPLES / name / "input.txt")


async def read(tmp_path: Path, **arguments: Any) -> BenchReadResult:
    request = BenchReadRequest.model_validate(arguments)
    check_read(request)
    async with Resources() as resources:
        answer = await bench_read(request, Context(state_dir=tmp_path, resources=resources))
    assert isinstance(answer, BenchReadResult)
    return answer


@pytest.mark.asyncio
async def test_a_good_file_is_usable(tmp_path: Path) -> None:
    answer = await read(tmp_path, files=sample("ok"))
    assert (answer.status, answer.outcome, answer.usable, answer.problems) == ("ok", "success", True, [])
    assert answer.metrics == answer.results[0].metrics
    assert answer.metrics["output_throughput"]


@pytest.mark.asyncio
async def test_what_cannot_be_used_fails_and_says_why(tmp_path: Path) -> None:
    answer = await read(tmp_path, files=[sample("ok"), sample("half_failed"), sample("cut"), "/nope"])
    assert [item.status for item in answer.results] == ["ok", "unusable", "unreadable", "unreadable"]
    assert (answer.status, answer.outcome, answer.usable) == ("unreadable", "failed", False)
    assert answer.problems[-1] == "/nope [0]: /nope is no file"
    assert answer.metrics == {}


@pytest.mark.asyncio
async def test_each_result_of_an_append_file_is_one_of_its_own(tmp_path: Path) -> None:
    answer = await read(tmp_path, files=sample("append"))
    assert [item.index for item in answer.results] == list(range(len(answer.results)))
    assert len(answer.results) > 1


@pytest.mark.asyncio
async def test_one_console_cannot_be_of_several_runs(tmp_path: Path) -> None:
    console = tmp_path / "console.txt"
    console.write_text("nothing", encoding="utf-8")
    with pytest.raises(Refused, match="several files"):
        await read(tmp_path, files=[sample("ok"), sample("ok")], console=str(console))
    with pytest.raises(Refused, match="results"):
        await read(tmp_path, files=sample("append"), console=str(console))
    with pytest.raises(Refused, match="is no file"):
        await read(tmp_path, files=sample("ok"), console=str(tmp_path / "missing"))


def test_files_of_the_other_benchmarks_are_read_too() -> None:
    kinds = {item.kind: item for item in read_files([sample("latency_result"), sample("throughput_result")], None)}
    assert kinds["latency"].metrics["avg_latency_s"]
    assert kinds["throughput"].metrics["output_throughput"] is None
    assert all(item.usable for item in kinds.values())


def test_what_the_console_ended_with_explains_a_missing_file() -> None:
    [item] = read_files(["/nope"], "Traceback\nOSError: no tokenizer for token=abc123\n")
    assert item.problems == ["/nope is no file", "The console ends with: OSError: no tokenizer for token=***"]


def test_a_binary_file_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(b"\xff\xfe{}")
    assert read_files([str(path)], None)[0].problems == [f"{path} is no UTF-8 text"]


def test_detailed_arrays_are_checked_and_counted_and_dropped() -> None:
    text = json.dumps(DETAILED)
    [found] = read_objects(text)
    assert found.detailed == {"input_lens": 2, "ttfts": 2, "itls": 2, "generated_texts": 2, "errors": 2}
    assert not found.fields.keys() & found.detailed.keys()
    assert read_result(text)[0].mean_ttft_ms == 3.5


@pytest.mark.parametrize(
    "broken",
    ['{"itls": [1,,2]}', '{"itls": [1 2]}', '{"itls": [1,]}', '{"a" 1}', '{"a": 1,}', "{1: 2}", '{"errors": ['],
)
def test_broken_arrays_are_refused_as_the_whole_file_would_be(broken: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken)
    with pytest.raises(ParseFailure, match="no complete JSON"):
        read_objects(broken)


def test_errors_of_requests_explain_a_failed_run() -> None:
    raw = {**DETAILED, "completed": 1, "failed": 1, "errors": ["", "Traceback\n  File x\nValueError: Bad Request"]}
    [result] = read_result(json.dumps(raw))
    assert result.errors == ["ValueError: Bad Request"]


@pytest.mark.slow
def test_a_detailed_result_of_100_mb_is_read_within_400_mb(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    source, requests = random.Random(1), 4000  # noqa: S311 - made-up figures
    raw = {**DETAILED, "num_prompts": requests, "completed": requests}
    raw["ttfts"] = [source.random() for _ in range(requests)]
    raw["itls"] = [[source.random() / 50 for _ in range(1150)] for _ in range(requests)]
    raw["generated_texts"] = ['word "é" ' * 200] * requests
    with path.open("w", encoding="utf-8") as file:
        for part in json.JSONEncoder().iterencode(raw):
            file.write(part)
    assert path.stat().st_size > 100e6
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout)["usable"] is True
    code, rss_mb = map(int, done.stderr.split())
    assert code == 0
    assert rss_mb < MOST_RSS_MB


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("--dataset-name random --random-output-len 6 --ignore-eos", Asked(24, exact=True)),
        ("--dataset-name=random --random-output 6", Asked(24, exact=False)),
        ("--dataset-name random", Asked(512, exact=False)),
        ("--dataset-name random --output-len 3 --random-output-len 6", Asked(12, exact=False)),
        ("--dataset-name custom --custom-output-len 5 --ignore-eos", Asked(20, exact=True)),
        ("--dataset_name custom --ignore_eos", Asked(1024, exact=True)),
        ("--dataset-name custom --custom-output-len -1", None),
        ("--dataset-name random --random-range-ratio 0.2", None),
        ("""--dataset-name random --random-range-ratio {"input":0.2}""", None),
        ("--dataset-name sharegpt", None),
        ("--num-prompts 3", None),
    ],
)
def test_tokens_asked_for_are_read_from_the_arguments(words: str, asked: Asked | None) -> None:
    assert asked_tokens(arguments_of(words.split()), 4) == asked


def test_a_server_that_stops_early_is_named_only_when_it_must_not() -> None:
    assert shortfall(Asked(24, exact=True), 24) is None
    assert shortfall(Asked(24, exact=False), 20) is None
    assert shortfall(None, 20) is None
    assert "asked for 24 tokens and got 20" in str(shortfall(Asked(24, exact=True), 20))
