"""endpoints.toml is the people's file: read strictly, changed carefully, never repaired by guessing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from vaws_mcp.core.failures import Refused
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import drop_endpoint, load_endpoints, save_endpoint

TEXT = """# my machines
[box]  # the good one
host = "10.0.0.1"
port = 2222  # behind NAT
env_files = ["/usr/local/Ascend/set_env.sh"]

[other]
host = "o"
"""
BROKEN = [
    ("[box\nhost=", "line 1"),
    ('[box]\nhots = "h"', "hots"),
    ("[box]\nport = 70000", "port"),
    ('[box]\nhost = ""', "host"),
    ('[box]\nvllm_repo = "relative"', "absolute"),
    ('box = "h"', "must be a table"),
    ('[box]\nruntime = "lxc"', "runtime"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "endpoints.toml"


def test_without_a_file_there_is_only_this_machine(tmp_path: Path) -> None:
    assert load_endpoints(tmp_path) == {"local": EndpointConfig(name="local")}


def test_entries_are_read(tmp_path: Path, path: Path) -> None:
    path.write_text(TEXT)
    known = load_endpoints(tmp_path)
    assert list(known) == ["local", "box", "other"]
    assert known["box"].port == 2222
    assert known["box"].env_files == ("/usr/local/Ascend/set_env.sh",)


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_a_file_with_a_mistake_is_refused_by_name_and_left_alone(
    tmp_path: Path, path: Path, text: str, why: str
) -> None:
    path.write_text(text)
    for act in (
        lambda: load_endpoints(tmp_path),
        lambda: save_endpoint(tmp_path, EndpointConfig(name="sim", host="h")),
        lambda: drop_endpoint(tmp_path, "box"),
    ):
        with pytest.raises(Refused, match=why) as caught:
            act()
        assert caught.value.code == "endpoints_file_invalid"
        assert str(path) in caught.value.message
    assert path.read_text() == text


def test_bytes_that_are_no_text_are_refused(tmp_path: Path, path: Path) -> None:
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match=r"endpoints\.toml"):
        load_endpoints(tmp_path)


def test_saving_keeps_comments_and_other_entries(tmp_path: Path, path: Path) -> None:
    path.write_text(TEXT)
    save_endpoint(tmp_path, EndpointConfig(name="sim", host="127.0.0.1", port=1, user="root"))
    assert path.read_text().startswith(TEXT)
    assert load_endpoints(tmp_path)["sim"].user == "root"


def test_saving_an_entry_again_replaces_it_whole(tmp_path: Path) -> None:
    save_endpoint(tmp_path, EndpointConfig(name="sim", host="a", port=1))
    save_endpoint(tmp_path, EndpointConfig(name="sim", host="b"))
    assert load_endpoints(tmp_path)["sim"] == EndpointConfig(name="sim", host="b")


def test_dropping_takes_only_its_entry(tmp_path: Path, path: Path) -> None:
    assert drop_endpoint(tmp_path, "sim") is False
    path.write_text(TEXT)
    save_endpoint(tmp_path, EndpointConfig(name="sim", host="h"))
    assert drop_endpoint(tmp_path, "sim") is True
    assert drop_endpoint(tmp_path, "sim") is False
    assert path.read_text().rstrip() == TEXT.rstrip()


def test_a_change_counts_at_once_whether_the_file_is_young_or_old(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.toml"
    for age_s in (0, 100):
        for host in ("one", "two"):
            path.write_text(f'[box]\nhost = "{host}"\n')
            then = time.time() - age_s - (host == "one")
            os.utime(path, (then, then))
            assert [load_endpoints(tmp_path)["box"].host for _ in range(2)] == [host, host]
    load_endpoints(tmp_path).clear()
    assert "box" in load_endpoints(tmp_path)
