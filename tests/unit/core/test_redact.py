"""Secrets do not survive redaction, and what only looks like one stays readable."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.core.redact import MASK, is_secret_name, redact, redact_text

SECRET_NAMES = [
    *("TOKEN", "HF_TOKEN", "hf_token", "API_KEY", "api-key", "--api-key", "AWS_SECRET", "DB_PASSWORD", "ROOT_PASSWD"),
    *("GIT_CREDENTIAL", "GOOGLE_CREDENTIALS", "x-api-key", "_TOKEN", "KEY", "secret"),
]
PLAIN_NAMES = [
    *("MAX_TOKENS", "max_num_batched_tokens", "TOKENIZER", "tokenizer_mode", "TOKENIZERS_PARALLELISM", "host_key"),
    *("HOST-KEY", "monkey", "KEYBOARD", "key_path", "PASSWORD_FILE", "secretary", "mean_tpot_ms"),
]
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SECRETS = st.text(ALPHABET, min_size=12, max_size=30).map(lambda text: f"s3{text}")
NAMES = st.sampled_from([name for name in SECRET_NAMES if not name.startswith("--")])


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_name_is_known(name: str) -> None:
    assert is_secret_name(name)
    assert redact({name: "value"}) == {name: MASK}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_name_that_only_looks_secret_keeps_its_value(name: str) -> None:
    assert not is_secret_name(name)
    assert redact({name: "value"}) == {name: "value"}
    assert redact_text(f"{name}=value") == f"{name}=value"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("export HF_TOKEN=hf_abc", "export HF_TOKEN=***"),
        ("env A=1 HF_TOKEN=hf_abc vllm serve", "env A=1 HF_TOKEN=*** vllm serve"),
        ("docker run --env HF_TOKEN=abc image", "docker run --env HF_TOKEN=*** image"),
        ("serve --api-key abc --port 1", "serve --api-key *** --port 1"),
        ("serve --api-key='a b' --port 1", "serve --api-key=*** --port 1"),
        ("Authorization: Bearer abcdefghij", "Authorization: Bearer ***"),
        ("https://user:pa@ss@host/path", "https://***@host/path"),
        ("redis://:pw@host:1/0", "redis://***@host:1/0"),
        ("https://host/x?token=abc&page=2", "https://host/x?token=***&page=2"),
        ("the key is under the mat", "the key is under the mat"),
        ("https://host/path/user@example", "https://host/path/user@example"),
        ("--max-tokens 16 --tokenizer x", "--max-tokens 16 --tokenizer x"),
    ],
)
def test_free_text_is_masked_where_a_secret_stands(text: str, masked: str) -> None:
    assert redact_text(text) == masked


@given(NAMES, SECRETS)
def test_no_secret_survives_in_text(name: str, secret: str) -> None:
    forms = [
        f"export {name}={secret}",
        f"{name}: {secret}",
        json.dumps({name: secret}),
        repr({name: secret}),
        f"serve --{name.strip('-_')} {secret} --port 1",
        f"curl -H 'Authorization: Bearer {secret}'",
        f"git clone https://me:{secret}@host/repo",
        shlex.join(["env", f"{name}={secret} x", "vllm"]),
    ]
    for form in forms:
        assert secret not in redact_text(form), form


def wrapped(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["a", "env", "items", "command"])
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


@given(NAMES, SECRETS, st.data())
def test_no_secret_survives_in_nested_values(name: str, secret: str, data: st.DataObject) -> None:
    leaf = st.sampled_from(
        [
            {name: secret},
            {name: [secret]},
            {name: {"user": secret}},
            [f"--{name.strip('-_')}", secret],
            [f"--{name.strip('-_')}={secret}"],
            f"{name}={secret}",
        ]
    )
    value = data.draw(wrapped(leaf))
    assert secret not in json.dumps(redact(value))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.sampled_from(["x", "a b"]), st.lists, max_leaves=5))
def test_values_without_secrets_are_unchanged(value: Any) -> None:
    assert redact({"field": value}) == {"field": value}


def test_the_word_after_a_secret_flag_is_masked_but_not_the_next_flag() -> None:
    assert redact(["--api-key", "abc", "--port", "1"]) == ["--api-key", MASK, "--port", "1"]
    assert redact(["--use-key", "--port", "1"]) == ["--use-key", "--port", "1"]


def test_a_bearer_string_after_an_escaped_blank_is_masked() -> None:
    masked = redact_text("--header Authorization=Bearer\\ abcdefgh1234 --num-prompts 8")
    assert "abcdefgh1234" not in masked
    assert "--num-prompts 8" in masked


@pytest.mark.parametrize(
    "text", ["u:hunter2@10.0.0.1:22", "cannot connect to a (u:hunter2@h): closed", "ssh://u:hunter2@h"]
)
def test_a_password_in_a_destination_is_masked(text: str) -> None:
    assert "hunter2" not in redact_text(text)


@pytest.mark.parametrize("text", ["root@10.0.0.1:22", "a (root@h:22): closed", "12:30 mail@h"])
def test_a_destination_without_a_password_stays_readable(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'export TOKEN="ab\"cd ef"; ls', "export TOKEN=*** ls"),
        ("TOKEN=$'abc def' run", "TOKEN=*** run"),
        ('TOKEN="abc"def run', "TOKEN=*** run"),
        (r"TOKEN=abc\ def run", "TOKEN=*** run"),
        ('TOKEN=ab"c d" run', "TOKEN=*** run"),
        (r"API_KEY='a b'\''c d' run", "API_KEY=*** run"),
        ("curl -H 'Authorization: token ghp_abcdefgh' x", "curl -H 'Authorization: token ***' x"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
        ("cut: -----BEGIN OPENSSH PRIVATE KEY-----\nabc", "cut: ***"),
        ('{"password":"a b","x":"y"}', '{"password":***,"x":"y"}'),
    ],
)
def test_a_secret_is_masked_to_its_very_end(text: str, expected: str) -> None:
    assert redact_text(text) == expected
