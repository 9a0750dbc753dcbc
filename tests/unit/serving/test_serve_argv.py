"""The command of a service is exact, and arguments that contradict it are refused before anything starts."""

from __future__ import annotations

import pytest

from vaws_mcp.core.failures import Refused
from vaws_mcp.serving.command import serve_argv
from vaws_mcp.serving.settings import OWNED_FLAGS, ServeSettings, default_served_name


def test_the_smallest_command() -> None:
    assert serve_argv(ServeSettings("/models/m", "m"), 8000) == [
        *("vllm", "serve", "/models/m", "--host", "127.0.0.1", "--port", "8000", "--served-model-name", "m")
    ]


def test_everything_given_is_in_the_command_in_order() -> None:
    settings = ServeSettings("m", "name", tp=4, host="10.0.0.1", serve_args=("--max-model-len", "4096", "--x=a b"))
    assert serve_argv(settings, 9)[3:] == [
        *("--host", "10.0.0.1", "--port", "9", "--served-model-name", "name", "--tensor-parallel-size", "4"),
        *("--max-model-len", "4096", "--x=a b"),
    ]


@pytest.mark.parametrize("form", ["{}", "{}=1"])
@pytest.mark.parametrize("flag", sorted(OWNED_FLAGS))
def test_an_argument_of_ours_in_serve_args_is_refused_with_its_name(flag: str, form: str) -> None:
    settings = ServeSettings("m", "m", serve_args=("--ok", form.format(flag)))
    with pytest.raises(Refused, match=flag) as caught:
        settings.check()
    assert OWNED_FLAGS[flag] in str(caught.value.hint)


def test_other_arguments_pass() -> None:
    ServeSettings("m", "m", serve_args=("--max-model-len", "1", "--port-range")).check()


@pytest.mark.parametrize(("model", "name"), [("/models/Qwen3-8B/", "Qwen3-8B"), ("org/model", "model"), ("m", "m")])
def test_a_model_is_served_under_the_last_part_of_its_path(model: str, name: str) -> None:
    assert default_served_name(model) == name
