"""Profiles are read strictly: what is wrong is named with its file and field, and nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.core.failures import Refused
from vaws_mcp.presets.runtimes import RuntimeProfile, load_profile, shipped_profiles

SHA256 = "0" * 64
WHEEL = "https://example.org/w/torch-2.9.0%2Bcpu-cp311-cp311-manylinux_2_28_aarch64.whl"


def profile(**fields: Any) -> dict[str, Any]:
    return {"schema": "vaws.runtime-profile.v1", "name": "mine", "packages": {"torch": "2.9.0+cpu"}, **fields}


def load(folder: Path, value: Any) -> RuntimeProfile:
    path = folder / "mine.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return load_profile(str(path))


def test_the_shipped_profiles_say_what_belongs_together() -> None:
    first, second = shipped_profiles()
    assert first.name == "v0.18.0-cann8.5.1"
    assert second.name == "v0.18.0-cann9.0.0"
    assert first.vllm_ascend == second.vllm_ascend
    assert first.vllm_ascend is not None
    assert first.vllm_ascend.commit == "72dc68973bd7e6ceef9a122de316a7ee9c9a84aa"
    assert (first.python, second.python) == ("3.11", "3.11.6")
    assert set(first.cann.model_dump().values()) == {"8.5.1"}
    assert set(second.cann.model_dump().values()) == {"9.0.0"}
    same = {"torch": "2.9.0+cpu", "vllm": "0.18.0+empty"}
    assert first.packages == {**same, "torch-npu": "2.9.0", "triton-ascend": "3.2.0.dev20260322"}
    assert second.packages == {**same, "torch-npu": "2.9.0.post2", "triton-ascend": "3.2.1"}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(Refused) as caught:
        load_profile("v0.18.0-cann9")
    assert caught.value.code == "preset_unknown"
    assert "Did you mean v0.18.0-cann9.0.0?" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["../runtimes/v0.18.0-cann9.0.0", "no/such.json", "/dev/null", "/", "a\0b.json"])
def test_what_is_no_profile_file_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        load_profile(name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"packges": {}}, "packges"),
        ({"schema": "vaws.runtime-profile.v2"}, "schema is 'vaws.runtime-profile.v2'"),
        ({"cann": {"tool": "8.5.1"}}, "cann.tool"),
        ({"packages": {"torch": "--index-url=x"}}, "packages.torch"),
        ({"packages": {"-torch": "2.9.0"}}, "packages.-torch"),
        ({"packages": {"torch": 2.9}}, "packages.torch"),
        ({"packages": {"torch": "2.9; rm"}}, "packages.torch"),
        ({"packages": {"vllm-ascend": "0.18"}}, "by its commit"),
        ({"packages": {}}, "at least one version"),
        ({"vllm_ascend": {"commit": "72dc68973", "remotes": ["x"]}}, "vllm_ascend.commit"),
        ({"vllm_ascend": {"commit": "7" * 40, "remotes": []}}, "vllm_ascend.remotes"),
        ({"wheels": [{"url": WHEEL, "sha256": "12"}]}, "wheels.0.sha256"),
        ({"wheels": [{"url": WHEEL.replace("https", "http"), "sha256": SHA256}]}, "wheels.0"),
        ({"wheels": [{"url": "https://u:p@example.org/torch-2.9.0-a-b-c.whl", "sha256": SHA256}]}, "user name"),
        ({"wheels": [{"url": "w/torch-2.9.0-a-b-c.whl", "sha256": SHA256}]}, "absolute path"),
        ({"wheels": [{"url": "https://example.org/torch.tar.gz", "sha256": SHA256}]}, "not the name of a wheel"),
        ({"wheels": [{"url": "/w/numpy-2.0-a-b-c.whl", "sha256": SHA256}]}, "does not pin: numpy"),
        ({"wheels": [{"url": "/w/torch-2.8.0-a-b-c.whl", "sha256": SHA256}]}, "not version 2.9.0+cpu"),
        ({"wheels": [{"url": WHEEL, "sha256": SHA256}] * 2}, "two wheels"),
    ],
)
def test_a_wrong_profile_is_named_with_its_field(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as caught:
        load(tmp_path, profile(**change))
    assert caught.value.code == "preset_invalid"
    assert str(tmp_path / "mine.json") in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"schema": 1}', '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 100_000, " " * (2 << 20)]
)
def test_what_is_not_json_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused, match=r"mine\.json"):
        load(tmp_path, text)


def test_a_wheel_knows_its_package(tmp_path: Path) -> None:
    found = load(tmp_path, profile(wheels=[{"url": WHEEL, "sha256": SHA256}])).wheels[0]
    assert (found.package, found.version, found.remote) == ("torch", "2.9.0+cpu", True)
    assert found.file == "torch-2.9.0+cpu-cp311-cp311-manylinux_2_28_aarch64.whl"
