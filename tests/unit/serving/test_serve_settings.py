"""What a request for a service means, and what is refused before anything is contacted."""

from __future__ import annotations

from typing import Any

import pytest

from vaws_mcp.core.failures import Refused
from vaws_mcp.serving.command import serve_argv
from vaws_mcp.serving.models import ServeStartRequest
from vaws_mcp.serving.settings import ServeSettings, flag_value, without_flags
from vaws_mcp.serving.start import asked_devices, check_start, settings_of
from vaws_mcp.serving.target import Target


def request(**fields: Any) -> ServeStartRequest:
    return ServeStartRequest(model="/models/m", **fields)


def test_left_out_arguments_get_their_defaults() -> None:
    settings = settings_of(request())
    assert (settings.served_model_name, settings.host, settings.port) == ("m", "127.0.0.1", None)
    assert serve_argv(settings, 1)[-2:] == ["--served-model-name", "m"]


def test_tp_and_dp_are_in_the_command() -> None:
    argv = serve_argv(settings_of(request(tp=2, dp=4)), 1)
    assert argv[-4:] == ["--tensor-parallel-size", "2", "--data-parallel-size", "4"]


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({}, 1),
        ({"tp": 4}, 4),
        ({"tp": 4, "dp": 2}, 8),
        ({"tp": 2, "serve_args": ("-pp", "2")}, 4),
        ({"tp": 2, "dp": 8, "serve_args": ("--data_parallel_size_local=2",)}, 4),
        ({"serve_args": ("--pipeline-parallel-size", "2", "--pipeline-parallel-size=3")}, 3),
    ],
)
def test_the_parallel_sizes_say_how_many_devices_are_needed(fields: dict[str, Any], needed: int) -> None:
    assert settings_of(request(**fields)).devices_needed() == needed


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"devices": "0,1"}, "devices_mismatch"),
        ({"devices": "0,1", "tp": 4}, "devices_mismatch"),
        ({"npu_count": 3, "tp": 2}, "devices_mismatch"),
        ({"extra_env": {"ASCEND_RT_VISIBLE_DEVICES": "0,1,2"}, "tp": 2}, "devices_mismatch"),
        ({"devices": "0", "npu_count": 1}, "devices_conflict"),
        ({"devices": "none", "npu_count": 1}, "devices_conflict"),
        ({"devices": "none", "extra_env": {"ASCEND_RT_VISIBLE_DEVICES": "0"}}, "devices_conflict"),
        ({"devices": "0,0", "tp": 2}, "devices_malformed"),
        ({"devices": "npu0"}, "devices_malformed"),
        ({"extra_env": {"VAWS_EXECUTION_ID": "x"}}, "reserved_env"),
        ({"unset_env": ("VAWS_EXECUTION_ID",)}, "reserved_env"),
        ({"serve_args": ("--port", "1")}, "serve_args_conflict"),
        ({"serve_args": ("--tensor_parallel_size=2",)}, "serve_args_conflict"),
        ({"serve_args": ("-dp", "2")}, "serve_args_conflict"),
        ({"serve_args": ("-pp", "two")}, "serve_args_malformed"),
        ({"serve_args": ("--pipeline-parallel-size",)}, "serve_args_malformed"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as caught:
        check_start(request(**fields))
    assert caught.value.code == code
    assert caught.value.hint


def test_devices_that_agree_pass() -> None:
    check_start(request(devices="0,1,4,5", tp=2, dp=2))
    check_start(request(npu_count=2, tp=2))
    check_start(request(devices="none", tp=2))
    check_start(request(extra_env={"ASCEND_RT_VISIBLE_DEVICES": ""}))


def test_the_visible_devices_of_the_caller_are_a_request() -> None:
    asked = asked_devices(request(extra_env={"ASCEND_RT_VISIBLE_DEVICES": "2,3"}))
    assert asked is not None
    assert asked.ids == ("2", "3")


@pytest.mark.parametrize(
    ("unwanted", "kept"),
    [
        (("--max-model-len",), ("--enforce-eager", "--x={}", "-O3")),
        (("max_model_len",), ("--enforce-eager", "--x={}", "-O3")),
        (("--x", "--enforce-eager"), ("--max-model-len", "10", "-1", "-O3")),
        ((), ("--enforce-eager", "--max-model-len", "10", "-1", "--x={}", "-O3")),
        (("--absent",), ("--enforce-eager", "--max-model-len", "10", "-1", "--x={}", "-O3")),
    ],
)
def test_flags_are_taken_out_with_their_values(unwanted: tuple[str, ...], kept: tuple[str, ...]) -> None:
    words = ("--enforce-eager", "--max-model-len", "10", "-1", "--x={}", "-O3")
    assert without_flags(words, unwanted) == kept
    assert settings_of(request(serve_args=words, unset_args=unwanted)).serve_args == kept


def test_the_last_value_of_a_flag_counts() -> None:
    assert flag_value(("--a", "1", "--a=2"), ("--a",)) == "2"
    assert flag_value(("--b", "1"), ("--a",)) is None


def test_a_key_that_the_service_asks_for_goes_into_the_requests_and_not_into_the_record() -> None:
    settings = ServeSettings("m", "m", serve_args=("--api-key", "sk-secret"))
    target = Target.of(settings, 8000)
    assert target.headers == {"Authorization": "Bearer sk-secret"}
    assert "sk-secret" not in str(target.labels())
