"""Wrong arguments are refused with names that help; arguments other clients use are taken and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaws_mcp.catalog import BY_NAME
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Refused
from vaws_mcp.dispatch.arguments import parse_request
from vaws_mcp.workspace.files.models import ReadRequest
from vaws_mcp.workspace.shell.models import BashRequest

BASH, READ = BY_NAME["remote_bash"], BY_NAME["remote_read"]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(state_dir=tmp_path, resources=Resources())


def test_an_unknown_argument_is_refused_with_the_nearest_name(ctx: Context) -> None:
    with pytest.raises(Refused) as caught:
        parse_request(BASH, {"command": "ls", "timeout_msec": 5, "xyzzy": 1}, ctx)
    assert caught.value.code == "argument_unknown"
    assert "'timeout_msec' (did you mean 'timeout_ms'?)" in caught.value.message
    assert "'xyzzy'" in caught.value.message
    assert "login_shell" in str(caught.value.hint)


def test_an_alias_is_taken_and_named_in_a_warning(ctx: Context) -> None:
    request = parse_request(BASH, {"cmd": "ls", "workdir": "/x"}, ctx)
    assert request == BashRequest(command="ls", cwd="/x")
    assert ctx.warnings == ["argument 'cmd' was taken as 'command'", "argument 'workdir' was taken as 'cwd'"]


def test_an_alias_beside_the_real_name_is_refused(ctx: Context) -> None:
    with pytest.raises(Refused, match="'cmd'"):
        parse_request(BASH, {"cmd": "ls", "command": "pwd"}, ctx)


def test_null_counts_as_absent(ctx: Context) -> None:
    assert parse_request(READ, {"file_path": "f", "limit": None}, ctx) == ReadRequest(file_path="f")


def test_an_unknown_argument_is_refused_even_when_it_is_null(ctx: Context) -> None:
    with pytest.raises(Refused, match="xyzzy"):
        parse_request(READ, {"file_path": "f", "xyzzy": None}, ctx)


def test_numbers_may_come_as_text(ctx: Context) -> None:
    assert parse_request(READ, {"file_path": "f", "limit": "5"}, ctx) == ReadRequest(file_path="f", limit=5)


def test_every_wrong_argument_is_named(ctx: Context) -> None:
    with pytest.raises(Refused) as caught:
        parse_request(READ, {"limit": "many", "max_bytes": 0}, ctx)
    assert caught.value.code == "argument_invalid"
    for part in ("file_path is missing", "limit:", "max_bytes:"):
        assert part in caught.value.message
