"""The OpenAI-compatible API of the simulated server, compared with recorded answers."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from sim_box import Box, Served, fixture_text, http, wait_until


def keys(value: Any) -> Any:
    """The nested key names of a JSON value."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else None


@pytest.fixture(scope="module")
def served(box: Box) -> Iterator[Served]:
    with box.serve("--max-model-len", "1024") as running:
        yield running


def test_answers_have_the_recorded_fields(served: Served):
    chat = {"model": "sim", "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 8}
    for name, path, body in (
        ("chat.json", "/v1/chat/completions", chat),
        ("models.json", "/v1/models", None),
        ("version.json", "/version", None),
    ):
        status, answer = http(served.port, path, body)
        assert status == 200
        recorded = json.loads(fixture_text(f"live_vllm_0.32/api/{name}"))
        ours, theirs = keys(json.loads(answer)), keys(recorded)
        if name == "chat.json":
            unused = {"prompt_token_ids", "prompt_text", "ec_transfer_params"}
            assert set(theirs) - set(ours) <= unused
            assert theirs["usage"] == ours["usage"]
            assert theirs["choices"][0].keys() - ours["choices"][0].keys() <= {"routed_experts"}
        else:
            assert ours == theirs


def test_a_stream_has_the_recorded_events(served: Served):
    def events(text: str) -> list[Any]:
        parts = [part.removeprefix("data: ") for part in text.strip().split("\n\n")]
        return [part if part == "[DONE]" else keys(json.loads(part)) for part in parts]

    body = {"model": "sim", "messages": [{"role": "user", "content": "Say something."}], "max_tokens": 4}
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    _, answer = http(served.port, "/v1/chat/completions", body)
    assert events(answer.decode()) == events(fixture_text("live_vllm_0.32/api/chat_stream.txt"))


def test_refusals_are_worded_as_recorded(served: Served):
    def recorded(name: str) -> Any:
        head, _, body = fixture_text(f"live_vllm_0.32/api/{name}").partition("\n\n")
        return int(head.split()[1]), json.loads(body.replace("tiny", "sim"))

    chat = {"model": "nope", "messages": [{"role": "user", "content": "x"}]}
    status, answer = http(served.port, "/v1/chat/completions", chat)
    assert (status, json.loads(answer)) == recorded("chat_wrong_model.txt")
    long = {"model": "sim", "prompt": "x", "max_tokens": 4096}
    status, answer = http(served.port, "/v1/completions", long)
    assert (status, json.loads(answer)) == recorded("completion_too_long.txt")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/completions", {"model": "sim", "prompt": "word " * 1020, "max_tokens": 16}, 400),
        ("/v1/completions", ["no object"], 400),
        ("/v1/chat/completions", {"model": "sim"}, 400),
        ("/v1/chat/completions", {"model": "sim", "messages": ["x"]}, 400),
        ("/v1/chat/completions", {"model": "sim", "messages": [{"role": "user", "content": [1]}]}, 500),
        ("/v1/nothing", None, 404),
        ("/v1/completions", None, 405),
    ],
)
def test_bad_requests_are_refused(served: Served, path: str, body: Any, status: int):
    assert http(served.port, path, body)[0] == status


@pytest.mark.parametrize("data", [b"\0\1\2\r\n\r\n", b"GET /\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"])
def test_bytes_that_are_no_request_close_the_connection_and_nothing_else(served: Served, data: bytes):
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as sock:
        sock.sendall(data)
        assert sock.recv(4096).startswith(b"HTTP/1.1 400 ")
        assert sock.recv(4096) == b""
    assert served.healthy()


def test_greedy_answers_depend_on_the_prompt_only(served: Served):
    def ask(prompt: str, **extra: Any) -> str:
        body = {"model": "sim", "prompt": prompt, "max_tokens": 8, "temperature": 0} | extra
        return json.loads(http(served.port, "/v1/completions", body)[1])["choices"][0]["text"]

    assert ask("one") == ask("one") != ask("two")
    assert ask("one", temperature=1, seed=7) == ask("one", temperature=1, seed=7)
    assert len({ask("one", temperature=1) for _ in range(3)}) == 3


def test_an_answer_without_ignore_eos_ends_by_itself(served: Served):
    body = {"model": "sim", "messages": [{"role": "user", "content": "hello"}], "temperature": 0, "max_tokens": 400}
    choice = json.loads(http(served.port, "/v1/chat/completions", body)[1])["choices"][0]
    assert choice["finish_reason"] == "stop"


def test_metrics_count_and_have_the_recorded_names(served: Served):
    def counters() -> dict[str, float]:
        lines = http(served.port, "/metrics")[1].decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    before = counters()
    http(served.port, "/v1/completions", {"model": "sim", "prompt": "a b c", "max_tokens": 5})
    after = counters()
    labels = '{engine="0",model_name="sim"}'
    assert after[f"vllm:generation_tokens_total{labels}"] - before[f"vllm:generation_tokens_total{labels}"] == 5
    assert after[f"vllm:prompt_tokens_total{labels}"] - before[f"vllm:prompt_tokens_total{labels}"] == 3
    assert after[f"vllm:num_requests_running{labels}"] == 0
    names = {name.partition("{")[0] for name in after}
    assert names <= set(fixture_text("live_vllm_0.32/api/metrics_names.txt").split())


def test_a_client_that_goes_away_frees_its_slot(served: Served):
    body = json.dumps({"model": "sim", "prompt": "x", "max_tokens": 900, "ignore_eos": True, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        assert sock.recv(4096)

    def idle() -> bool:
        return 'vllm:num_requests_running{engine="0",model_name="sim"} 0.0' in http(served.port, "/metrics")[1].decode()

    wait_until(idle, 3, "the request was dropped")
