"""The main job when something breaks: what is said, what is kept, and that nothing stays behind."""

import pytest
from flow_world import SMALL_BENCH, Json, Spoken, Task, World


def check_failed(spoken: Spoken, code: str, layer: str, exit_code: int) -> Json:
    """Check how a comparison failed and return its error."""
    answer = spoken.answer
    error = answer["error"]
    assert (error["code"], error["layer"], spoken.code) == (code, layer, exit_code), answer
    assert answer["simulated"] is True
    assert error["hint"]
    assert error["message"].startswith(answer["summary"])
    assert "comparison" not in answer
    return answer


def check_first_state_kept(answer: Json, task: Task, second: str) -> None:
    """Check that the good state was kept beside the one that failed."""
    good, bad = answer["partial_states"]
    assert (good["label"], good["status"]) == ("good", "ok")
    assert good["aggregated"]["mean_tpot_ms"]["mean"] > 0
    assert (bad["label"], bad["status"]) == ("bad", second)
    (run,) = task.runs
    assert {path.stem for path in (run / "states").iterdir()} == {"good", "bad"}
    assert str(run / "states" / "good.json") in answer["result_paths"]


def test_a_server_that_dies_while_loading_is_named_with_its_log(world: World, task: Task) -> None:
    spoken = world.compare(task, "good=main", "bad=fault-die_loading")

    answer = check_failed(spoken, "service_exited", "remote_workload", 1)
    check_first_state_kept(answer, task, "failed")
    assert "exit code 1" in answer["error"]["message"]
    assert "Engine core initialization failed" in answer["log_tail"]
    world.assert_clean()


def test_a_server_that_is_never_ready_is_a_timeout(world: World, task: Task) -> None:
    spoken = world.compare(task, "good=main", "bad=fault-never_ready", health_timeout="3")

    answer = check_failed(spoken, "service_not_ready", "remote_workload", 1)
    check_first_state_kept(answer, task, "timeout")
    assert (answer["status"], answer["outcome"]) == ("timeout", "timeout")
    assert "after 3 s" in answer["error"]["message"]
    assert "health_timeout" in answer["error"]["hint"]
    world.assert_clean()


def test_half_failed_requests_are_no_measurement(world: World, task: Task) -> None:
    spoken = world.compare(task, "good=main", "bad=fault-half_fail")

    answer = check_failed(spoken, "bench_unusable", "remote_workload", 1)
    check_first_state_kept(answer, task, "failed")
    assert answer["exit_code"] == 0
    assert any("failed" in problem for problem in answer["problems"])
    world.assert_clean()


def test_a_client_that_exits_0_with_nothing_completed_is_a_failure(world: World, task: Task) -> None:
    words = " ".join((*SMALL_BENCH, "--ready-check-timeout-sec", "0"))
    fault = "VAWS_SIM_FAULT=bench_zero"
    spoken = world.compare(task, "first=main", "second=slow-decode", bench_args=words, bench_env=fault)

    answer = check_failed(spoken, "bench_unusable", "remote_workload", 1)
    (state,) = answer["partial_states"]
    assert (state["label"], state["status"], state["per_run"]) == ("first", "failed", [])
    assert answer["exit_code"] == 0
    assert answer["problems"]
    assert len(task.executions) == 2  # the reservation and the one service
    world.assert_clean()


@pytest.mark.slow
def test_a_server_that_hangs_on_stop_is_ended_and_the_comparison_goes_on(world: World, task: Task) -> None:
    spoken = world.compare(task, "hangs=fault-hang_on_stop", "good=main")

    assert (spoken.code, spoken.answer["status"]) == (0, "ok")
    assert [row["state"] for row in spoken.answer["comparison"]] == ["hangs", "good"]
    world.assert_clean()


def test_orphans_of_a_server_are_drained_before_the_next_state(world: World, task: Task) -> None:
    spoken = world.compare(task, "leaves=fault-leave_orphans", "good=main")

    assert (spoken.code, spoken.answer["status"]) == (0, "ok")
    assert [row["state"] for row in spoken.answer["comparison"]] == ["leaves", "good"]
    world.assert_clean()


def test_a_wrong_flag_of_the_client_is_quoted(world: World, task: Task) -> None:
    spoken = world.compare(task, "first=main", "second=slow-decode", bench_args="--no-such-flag")

    answer = check_failed(spoken, "bench_result_missing", "remote_workload", 1)
    assert "--no-such-flag" in answer["error"]["message"]
    assert answer["exit_code"] != 0
    world.assert_clean()


def test_a_port_in_use_is_named_with_its_owner(world: World, task: Task) -> None:
    ssh_port = str(world.facts["port"])
    spoken = world.compare(task, "first=main", "second=slow-decode", port=ssh_port)

    answer = check_failed(spoken, "port_taken", "remote_env", 3)
    assert f"port {ssh_port}" in answer["error"]["message"]
    assert task.executions == []
    world.assert_clean()
