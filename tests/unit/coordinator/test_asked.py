"""What a caller asks for is understood in one way, or refused before anything is contacted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from vaws_mcp.coordinator.asked import LONGEST_HOLD_S, DeviceIds, Ports, checked_environment, device_request, duration_s
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.failures import Refused


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1d", 86400)]
)
def test_durations_have_units(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "0s", "-1m", "30 m", "1m1h", "8d", "1.5h", "½h", "9" * 30 + "h"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(Refused, match="duration"):
        duration_s(text)


@given(st.integers(1, LONGEST_HOLD_S))
def test_every_length_can_be_said(seconds: int) -> None:
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    assert duration_s(f"{hours}h{minutes}m{left}s") == duration_s(f"{seconds}s") == seconds


def test_device_ids_and_ports_come_as_lists_or_with_commas() -> None:
    ids, ports = TypeAdapter(DeviceIds), TypeAdapter(Ports)
    assert ids.validate_python("0,1") == ids.validate_python([0, 1]) == ids.validate_python(["0, 1"]) == ("0", "1")
    assert ports.validate_python("8000,8001") == ports.validate_python([8000, "8001"]) == (8000, 8001)


def test_the_variable_is_a_request_like_any_other() -> None:
    env = {"ASCEND_RT_VISIBLE_DEVICES": "2,3", "A": "1"}
    assert device_request((), None, env) == DeviceRequest(ids=("2", "3"))
    assert device_request(("3", "2"), None, env) == DeviceRequest(ids=("3", "2"))
    assert checked_environment(env) == {"A": "1"}


def test_an_empty_variable_is_no_request_and_is_passed_on() -> None:
    env = {"ASCEND_RT_VISIBLE_DEVICES": ""}
    assert device_request((), None, env) is None
    assert checked_environment(env) == env


@pytest.mark.parametrize(
    ("ids", "count", "visible"), [(("0",), 1, ""), ((), 1, "0"), (("0",), None, "1"), (("0",), None, "0,1")]
)
def test_two_different_requests_conflict(ids: tuple[str, ...], count: int | None, visible: str) -> None:
    with pytest.raises(Refused) as caught:
        device_request(ids, count, {"ASCEND_RT_VISIBLE_DEVICES": visible})
    assert caught.value.code == "devices_conflict"


@pytest.mark.parametrize("ids", [("a",), ("0", "0"), ("-1",), ("0x1",)])
def test_ids_are_different_numbers(ids: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as caught:
        device_request(ids, None, {})
    assert caught.value.code == "devices_malformed"


def test_assumptions_about_no_device_are_refused() -> None:
    with pytest.raises(Refused):
        device_request((), None, {}, assume_free=True)
    assert device_request((), 2, {}, assume_free=True) == DeviceRequest(count=2, assume_free=True)


@pytest.mark.parametrize("name", ["VAWS_EXECUTION_ID", "VAWS_X", "VAWS_SIM", "VAWS_SIM_MARKER"])
def test_reserved_variables_can_be_neither_set_nor_unset(name: str) -> None:
    for env, unset in (({name: "1"}, ()), ({}, (name,))):
        with pytest.raises(Refused, match=name) as caught:
            checked_environment(env, unset)
        assert caught.value.code == "reserved_env"


def test_unset_variables_are_none_and_names_are_checked() -> None:
    assert checked_environment({"A": "1"}, ("B",)) == {"A": "1", "B": None}
    with pytest.raises(Refused, match="name of a variable"):
        checked_environment({}, ("A=B",))
