"""What a person at a terminal sees of an answer."""

import pytest

from vaws_mcp.cli.show import show


def test_a_command_can_be_copied_and_empty_facts_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    show(
        {
            "outcome": "success",
            "summary": "ready",
            "command": ["vllm", "serve", "/models/a b", "--port", "8000"],
            "sources": {"vllm_ascend": None, "vllm": None},
            "worker": {"python": "3.11", "venv": None, "cpu": {"count": 2}},
            "receipt": {"user_env": {"names": []}},
        }
    )
    shown = capsys.readouterr().out
    assert "command: vllm serve '/models/a b' --port 8000\n" in shown
    assert "worker: python=3.11, cpu=(count=2)\n" in shown
    assert "sources" not in shown
    assert "receipt" not in shown


def test_effects_and_judgements_are_shown_with_their_figures(capsys: pytest.CaptureFixture[str]) -> None:
    effect = {"pct": 11.4, "low_pct": 6.7, "high_pct": 16.2, "launches": [4, 4]}
    where = {"state": "candidate", "case": "default"}
    judgement = {**where, "name": "mean_tpot_ms", "verdict": "failed", "reason": "too slow"}
    show(
        {
            "outcome": "success",
            "summary": "compared",
            "effects": [{**where, "metric": "mean_tpot_ms", "effect": effect}],
            "judgements": [judgement],
        }
    )
    shown = capsys.readouterr().out
    assert "+11.4" in shown
    assert "+16.2" in shown
    assert "too slow" in shown


def test_a_list_of_many_columns_is_shown_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    tree = {f"field_{number}": f"a value that needs its room {number}" for number in range(12)}
    show({"outcome": "success", "summary": "synced", "trees": [tree]})
    assert "  field_11: a value that needs its room 11\n" in capsys.readouterr().out


def test_a_plan_is_shown_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    launches = [{"number": 1, "label": "baseline"}, {"number": 2, "label": "candidate"}]
    show({"outcome": "success", "summary": "planned", "plan": {"launches": launches, "iterations": 3}})
    shown = capsys.readouterr().out
    assert "│ 2      │ candidate │" in shown
    assert "iterations: 3\n" in shown
