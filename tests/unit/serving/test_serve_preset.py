"""A service takes from a preset what its caller does not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.core.failures import Refused
from vaws_mcp.serving.models import ServeStartRequest
from vaws_mcp.serving.preset import Filled, with_preset
from vaws_mcp.serving.start import check_start, settings_of


def filled(folder: Path, preset: dict[str, Any] | None, **fields: Any) -> Filled:
    given: dict[str, Any] = {"model": "/models/m", **fields}
    if preset is not None:
        (folder / "presets").mkdir()
        (folder / "presets" / "p.json").write_text(json.dumps(preset))
        given["preset"] = "p"
    return with_preset(ServeStartRequest.model_validate(given), folder)


def test_without_a_preset_the_request_is_as_it_was(tmp_path: Path) -> None:
    found = filled(tmp_path, None, tp=2)
    assert found.request == ServeStartRequest(model="/models/m", tp=2)
    assert (found.origin["tp"], found.origin["dp"]) == ("explicit", "default")


def test_what_is_said_wins_and_the_rest_comes_from_the_preset(tmp_path: Path) -> None:
    preset = {"tp": 4, "dp": 2, "port": 9000, "serve_args": ["--a", "--b", "1"], "runs": 5, "env": {"A": "p", "B": "p"}}
    found = filled(tmp_path, preset, tp=1, extra_env=["A=e"], unset_args=["b"])
    settings = settings_of(found.request)
    assert (settings.tp, settings.dp, settings.port, settings.serve_args) == (1, 2, 9000, ("--a",))
    assert settings.env == {"A": "e", "B": "p"}
    names = ("tp", "dp", "served_model_name", "serve_args", "env.A", "env.B")
    assert [found.origin[name] for name in names] == [
        *("explicit", "preset:p", "default", "preset:p", "explicit", "preset:p"),
    ]


@pytest.mark.parametrize(
    ("preset", "fields", "devices", "count"),
    [
        ({"devices": [4, 5], "tp": 2}, {}, ("4", "5"), None),
        ({"devices": "none"}, {}, ("none",), None),
        ({"devices": [4, 5], "tp": 2}, {"npu_count": 2}, (), 2),
        ({"devices": [4, 5], "tp": 1}, {"extra_env": ["ASCEND_RT_VISIBLE_DEVICES=6"]}, (), None),
        ({"env": {"ASCEND_RT_VISIBLE_DEVICES": "6"}}, {"devices": "7"}, ("7",), None),
    ],
)
def test_of_two_wishes_for_devices_that_of_the_request_counts(
    preset: dict[str, Any], fields: dict[str, Any], devices: tuple[str, ...], count: int | None, tmp_path: Path
) -> None:
    request = filled(tmp_path, preset, **fields).request
    assert (request.devices, request.npu_count) == (devices, count)
    check_start(request)


def test_a_preset_that_contradicts_the_request_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        check_start(filled(tmp_path, {"tp": 4}, devices="0,1").request)
    assert caught.value.code == "devices_mismatch"


def test_an_unknown_preset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        with_preset(ServeStartRequest(model="/models/m", preset="dsv4"), tmp_path)
    assert caught.value.code == "preset_unknown"
