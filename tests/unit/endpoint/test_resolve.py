"""What a request says becomes one endpoint, or an error that helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from vaws_mcp.core.failures import NeedsInput, Refused
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.endpoint.resolve import lookup, parse_destination, resolve


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    return tmp_path / "home"


def write(state_dir: Path, text: str) -> None:
    (state_dir / "endpoints.toml").write_text(text)


@pytest.mark.parametrize(
    ("text", "user", "host", "port"),
    [
        ("root@host", "root", "host", None),
        ("host.example.org", None, "host.example.org", None),
        ("me@10.0.0.1:2222", "me", "10.0.0.1", 2222),
        ("host:1", None, "host", 1),
        ("host:65535", None, "host", 65535),
        ("ssh://me@host:22/", "me", "host", 22),
        ("[::1]:2222", None, "::1", 2222),
        ("me@[fe80::1]", "me", "fe80::1", None),
    ],
)
def test_destinations(tmp_path: Path, text: str, user: str | None, host: str, port: int | None) -> None:
    config = lookup(tmp_path, text)
    assert (config.user, config.host, config.port, config.name) == (user, host, port, text)


@pytest.mark.parametrize("text", ["host:0", "host:65536", "me@host:99999"])
def test_a_port_out_of_range_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused, match="impossible port"):
        lookup(tmp_path, text)


@pytest.mark.parametrize("text", ["a b@host", "host:port", "me@", "me@ho st", "http://host:1", "host:22/etc", "::1"])
def test_a_malformed_destination_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused) as caught:
        lookup(tmp_path, text)
    assert text in caught.value.message


@given(st.text(max_size=20) | st.from_regex(r"[a-z@\[\]:.0-9]{1,20}", fullmatch=True))
def test_any_text_is_a_destination_or_refused(text: str) -> None:
    try:
        config = parse_destination(text)
    except Refused:
        return
    assert config.host
    assert config.host in text
    assert config.port is None or 1 <= config.port <= 65535


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, '[devbox]\nhost = "h"\n')
    with pytest.raises(Refused) as caught:
        lookup(tmp_path, "devbx")
    assert "known: devbox, local" in caught.value.message
    assert "Did you mean devbox?" in str(caught.value.hint)


def test_an_alias_of_the_ssh_configuration_is_a_destination(tmp_path: Path, home: Path) -> None:
    (home / ".ssh" / "config").write_text("Host npu gpu\n  HostName 10.0.0.1\n")
    assert lookup(tmp_path, "npu").host == "npu"
    with pytest.raises(Refused):
        lookup(tmp_path, "other")


def test_the_request_goes_before_the_task(tmp_path: Path) -> None:
    write(tmp_path, '[a]\nhost = "ha"\n[b]\nhost = "hb"\ncontainer = "c"\n')
    assert resolve(tmp_path, EndpointRequest(endpoint="a"), "b").host == "ha"
    assert resolve(tmp_path, EndpointRequest(), "b").host == "hb"
    with pytest.raises(NeedsInput):
        resolve(tmp_path, EndpointRequest())


@pytest.mark.parametrize(
    ("field", "value"), [("container", "x"), ("identity_file", "/k"), ("jump", "j"), ("accept_new", True)]
)
def test_fields_of_the_request_replace_stored_ones(tmp_path: Path, field: str, value: Any) -> None:
    write(tmp_path, '[a]\nhost = "h"\ncontainer = "c"\nidentity_file = "/old"\njump = "old"\n')
    before = resolve(tmp_path, EndpointRequest(endpoint="a"))
    assert (before.container, before.identity_file, before.jump) == ("c", "/old", "old")
    after = resolve(tmp_path, EndpointRequest.model_validate({"endpoint": "a", field: value}))
    assert after == before.model_copy(update={field: value})


@pytest.mark.parametrize("field", ["container", "identity_file", "jump"])
def test_an_empty_field_does_not_undo_a_stored_one(field: str) -> None:
    with pytest.raises(ValidationError, match=r"at least 1 character|match pattern"):
        EndpointRequest.model_validate({"endpoint": "a", field: ""})


def test_the_built_in_endpoint_is_this_machine(tmp_path: Path) -> None:
    config = lookup(tmp_path, "local")
    assert config.is_local
    assert config.address == "local (this machine)"


def test_an_address_names_place_and_container(tmp_path: Path) -> None:
    write(tmp_path, '[a]\nhost = "h"\nuser = "u"\nport = 2\ncontainer = "c"\n')
    assert lookup(tmp_path, "a").address == "a (u@h:2, container c)"
    assert lookup(tmp_path, "u@h:2").address == "u@h:2"


LIMITED = """
[free]
host = "box.example.org"
[prod]
host = "Box.example.org"
user = "root"
read_only = true
root = "/data"
deny_commands = ["rm"]
"""


@pytest.mark.parametrize("name", ["box.example.org", "root@box.example.org:22", "ssh://other@BOX.example.org/"])
def test_a_destination_has_the_limits_of_the_endpoint_it_reaches(tmp_path: Path, name: str) -> None:
    write(tmp_path, LIMITED)
    config = resolve(tmp_path, EndpointRequest(endpoint=name))
    assert (config.read_only, config.root, config.deny_commands) == (True, "/data", ("rm",))
    assert config.name == name


def test_another_port_or_name_is_another_place(tmp_path: Path) -> None:
    write(tmp_path, LIMITED)
    assert not resolve(tmp_path, EndpointRequest(endpoint="root@box.example.org:2222")).read_only
    assert not resolve(tmp_path, EndpointRequest(endpoint="free")).read_only
