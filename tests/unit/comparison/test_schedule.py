"""Order of launches, and the loads under which each is measured."""

import pytest

from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.comparison.cases import cases_of, with_options
from vaws_mcp.comparison.models import BenchCompareRequest
from vaws_mcp.comparison.schedule import schedule


def settings(**fields: object) -> BenchSettings:
    request = BenchCompareRequest.model_validate({"model": "m", "state": ["a=x", "b=y"], **fields})
    return BenchSettings.of(request)


def test_sequential_launches_one_state_after_the_other() -> None:
    launches = schedule(["a", "b"], "sequential", 2)
    assert [(one.number, one.label, one.round) for one in launches] == [
        (1, "a", 1),
        (2, "a", 2),
        (3, "b", 1),
        (4, "b", 2),
    ]


def test_interleaved_goes_forward_then_backward() -> None:
    launches = schedule(["a", "b", "c"], "interleaved", 3)
    assert "".join(one.label for one in launches) == "abccbaabc"
    assert [one.round for one in launches] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [one.number for one in launches] == list(range(1, 10))


@pytest.mark.parametrize("rounds", [2, 4, 8])
def test_with_an_even_number_of_rounds_no_state_is_earlier_on_average(rounds: int) -> None:
    launches = schedule(["a", "b", "c"], "interleaved", rounds)
    places = {label: [one.number for one in launches if one.label == label] for label in "abc"}
    assert len({sum(numbers) for numbers in places.values()}) == 1


def test_each_request_count_is_a_case_that_sets_prompts_and_concurrency() -> None:
    args = ["--num-prompts=9", "--max-concurrency", "3", "--ignore-eos"]
    cases = cases_of(settings(bench_request_counts="1,16", bench_args=args))
    assert [case.name for case in cases] == ["requests_1", "requests_16"]
    assert cases[1].bench_args == ("--ignore-eos", "--num-prompts", "16", "--max-concurrency", "16")


def test_without_counts_the_one_case_is_called_default() -> None:
    (case,) = cases_of(settings(bench_args=["--num-prompts", "9"]))
    assert case == ("default", ("--num-prompts", "9"))


def test_an_option_without_value_is_replaced_by_itself() -> None:
    words = ("--ignore-eos", "--seed", "1", "--seed=2")
    assert with_options(words, {"--seed": "3", "--ignore-eos": None}) == ("--seed", "3", "--ignore-eos")
