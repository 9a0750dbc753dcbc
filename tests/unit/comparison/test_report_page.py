"""The report of a comparison: verdict first, hostile text stays text, and a browser shows it without a network."""

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launch_records import interleaved, launch

from vaws_mcp.comparison.deltas import compare
from vaws_mcp.comparison.models import BenchCompareResult
from vaws_mcp.comparison.records import LaunchRecord
from vaws_mcp.comparison.states import state_result
from vaws_mcp.comparison.statistics import effects_of, judged
from vaws_mcp.comparison.view import report_of
from vaws_mcp.comparison.view_figures import launch_interval
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.presets.policies import load_policy
from vaws_mcp.render.report import ComparisonReport, report_html, report_markdown, write_report

HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)> $\\frac{1}{2}$ | `x`'


class _Endpoint:
    """As much of an endpoint as a report asks for."""

    simulated = True
    hello = {"hostname": HOSTILE, "platform": "linux", "boot_id": "1234"}  # noqa: RUF012

    class config:  # noqa: N801
        address = "sim (root@127.0.0.1:1)"


def view(launches: list[LaunchRecord], policy: str | None = None, **more: Any) -> ComparisonReport:
    labels = list(dict.fromkeys(record.label for record in launches))
    result = BenchCompareResult(
        task_id="t",
        model=HOSTILE,
        comparison=compare(launches),
        effects=effects_of(launches),
        state_results=[state_result([one for one in launches if one.label == label]) for label in labels],
        config={"served_model_name": "sim-model", "env": {"X": HOSTILE}},
        config_origin={"env": "explicit"},
        repeat=["remote-dev", "bench-compare", "--model", HOSTILE],
        **more,
    )
    if policy is not None:
        found = judged(policy, load_policy(policy), launches)
        result.verdict, result.policy, result.judgements = found.verdict, found.policy, found.judgements
    endpoint: Endpoint = _Endpoint()  # pyright: ignore[reportAssignmentType]
    return report_of(result, launches, endpoint, [HOSTILE])


def test_the_verdict_stands_first() -> None:
    shown = view(interleaved(8, 20, 23), "latency-5pct")
    assert shown.headline.startswith("Verdict: failed (policy latency-5pct). Against a, b: TPOT +15.")
    assert [table.title for table in shown.tables] == [
        "Verdict by metric and gate",
        "Effects with 95 % intervals",
        "Launches",
    ]


def test_without_a_policy_the_change_and_its_interval_stand_first() -> None:
    headline = view(interleaved(4, 20, 22)).headline
    assert re.search(r"b: TPOT \+10\.\d % \(95 %: \+\d+\.\d to \+\d+\.\d %\)", headline)
    assert headline.endswith("Verdict: no policy declared.")


def test_the_interval_of_launches_needs_two_of_them() -> None:
    assert launch_interval([20.0]) is None
    assert launch_interval([20.0, None]) is None
    low, high = launch_interval([19.0, 21.0]) or (0, 0)
    assert (low, high) == (pytest.approx(20 - 12.706, abs=0.01), pytest.approx(20 + 12.706, abs=0.01))


def test_the_csv_has_a_row_for_each_launch_at_full_precision(tmp_path: Path) -> None:
    paths = write_report(view(interleaved(2, 20.123456789, 22)), tmp_path)
    assert {path.name for path in paths.values()} == {"report.md", "report.html", "report.csv"}
    rows = list(csv.DictReader(io.StringIO(paths["csv"].read_text("utf-8"))))
    assert [(row["launch"], row["state"], row["contaminated"]) for row in rows] == [
        ("1", "a", "no"),
        ("2", "b", "no"),
        ("3", "b", "no"),
        ("4", "a", "no"),
    ]
    assert float(rows[0]["mean_tpot_ms"]) == pytest.approx(20.123456789 * 0.996 * 1.0005, rel=1e-12)


def test_hostile_text_stays_text_in_markdown_and_page() -> None:
    shown = view(interleaved(2, 20, 22))
    assert "<script>document" not in report_html(shown)
    assert "onerror=alert(1)>" not in report_html(shown)
    assert "<script>" not in re.sub(r"```.*?```", "", report_markdown(shown), flags=re.DOTALL)


def test_detailed_results_are_drawn_as_distributions(tmp_path: Path) -> None:
    path = tmp_path / "detailed.json"
    path.write_text('{"ttfts": [0.01, 0.02], "itls": [[0.02, 0.03], [0.02]], "output_lens": [3, 2]}', "utf-8")
    launches = [launch(1, "a", 20, result_paths=[str(path)]), launch(2, "b", 22)]
    captions = [figure.caption for figure in view(launches).figures]
    assert captions[-2:] == [
        "TTFT of single requests in counted iterations",
        "TPOT of single requests in counted iterations",
    ]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_shows_the_page_without_running_anything(tmp_path: Path) -> None:
    page = write_report(view(interleaved(4, 20, 22), "latency-5pct"), tmp_path)["html"]
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    words += ["--disable-background-networking", "--proxy-server=127.0.0.1:9", "--dump-dom", page.as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)

    assert "<title>Comparison of 2 states: sim-model</title>" in done.stdout
    assert "Verdict: failed (policy latency-5pct)" in done.stdout
    assert done.stdout.count("<svg") == 3
    assert not re.search(r"<script|<img", done.stdout)
    assert "document.title=" in done.stdout


def test_versions_and_trees_of_both_sides_are_in_the_environment() -> None:
    endpoint = {
        "cann": {"toolkit": {"version": "8.5.1"}, "nnal": None},
        "python": {"version": "3.11.7"},
        "packages": {"torch": {"version": "2.9.0"}, "vllm": {"error": "unreadable"}},
        "repos": {"vllm": {"path": "/w/vllm", "commit": "a" * 40, "dirty": True}},
    }
    receipt = {"endpoint": endpoint, "sources": {"vllm_ascend": {"path": "/here", "commit": "b" * 40, "dirty": False}}}
    facts = dict(view(interleaved(2, 20, 22), receipt=receipt).facts)
    assert (facts["CANN toolkit"], facts["Python"], facts["torch"]) == ("8.5.1", "3.11.7", "2.9.0")
    assert "CANN nnal" not in facts
    assert facts["vllm on the endpoint"] == "aaaaaaaaaaaa, with uncommitted changes (/w/vllm), before the run"
    assert facts["vllm_ascend here"] == "bbbbbbbbbbbb (/here), before the run"
    assert "Python" not in dict(view(interleaved(2, 20, 22)).facts)
