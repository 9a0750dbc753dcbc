"""A log is explained by its first primary cause, however it is written and cut."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaws_mcp.serving.classify import CHUNK, Classifier, Diagnosis, classify
from vaws_mcp.serving.signatures import Signature, known_signatures

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"
needs_fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason="the folder with fixtures is not beside the project")

PREFIX = "(EngineCore_DP0 pid=4022) ERROR 01-01 00:00:41 [core.py:866] "
CAUSE = (
    "ValueError: Free memory on device (27.18/60.96 GiB) on startup is less than desired GPU memory utilization (0.9)."
)
SECONDARY = (
    "(APIServer pid=4001) RuntimeError: Engine core initialization failed. See root cause above.",
    "[ERROR] 2026-01-01-00:00:43 (PID:4001, Device:-1, RankID:-1) ERR99999 UNKNOWN applicaiton exception",
    "ERROR Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    "RuntimeError: HCCL function error: hcclCommInitRootInfoConfig(numRanks, &rootInfo, rank), error code is 1",
)
HARMLESS = (
    "INFO 01-01 00:00:01 [__init__.py:217] Platform plugin ascend is activated",
    "(APIServer pid=1) WARNING 11-30 12:18:38 [system_utils.py:255] like `OSError: [Errno 24] Too many open files`.",
    "(EngineCore pid=1) INFO 11-30 12:18:53 [core.py:133] trust_remote_code=True, quant_model_description.json",
    'INFO:     127.0.0.1:48202 - "POST /v1/completions HTTP/1.1" 200 OK',
    "\rLoading safetensors checkpoint shards:  25% Completed | 1/4 [00:00<?, ?it/s]",
)


def named(diagnosis: Diagnosis) -> tuple[str, str | None]:
    return diagnosis.cls, diagnosis.signature


@pytest.mark.parametrize("signature", known_signatures().signatures, ids=lambda item: item.id)
def test_every_signature_explains_its_own_example(signature: Signature) -> None:
    found = classify(signature.example)
    if signature.role == "benign":
        assert found.cls == "unclassified"
    else:
        assert named(found) == (signature.cls, signature.id)
        assert found.hint == signature.hint
        assert found.line_number == 1


@needs_fixtures
def test_every_public_sample_is_classified_as_its_fixture_says() -> None:
    rows = map(json.loads, (FIXTURES / "serve_logs" / "signatures.jsonl").read_text("utf-8").splitlines())
    wrong = {
        row["id"]: named(classify(row["sample"])) for row in rows if classify(row["sample"]).signature != row["id"]
    }
    assert wrong == {}


@needs_fixtures
@pytest.mark.parametrize(
    ("name", "cls", "signature"),
    [
        ("startup_fail_secondary_last.log", "npu_busy", "free_memory_low"),
        ("port_taken_after_ready.log", "port_conflict", "port_in_use"),
        ("startup_ok.log", "ready", "benign_ready"),
    ],
)
def test_the_public_logs_are_explained(name: str, cls: str, signature: str) -> None:
    found = classify((FIXTURES / "serve_logs" / name).read_text("utf-8"))
    assert named(found) == (cls, signature)
    assert found.failure is (cls != "ready")


@needs_fixtures
@pytest.mark.parametrize(
    ("name", "cls", "signature"),
    [
        ("bad_flag", "usage", "bad_flag"),
        ("model_missing", "model", "model_path"),
        ("port_in_use", "port_conflict", "port_in_use"),
        ("too_long", "config", "max_model_len"),
    ],
)
def test_every_real_failure_is_explained(name: str, cls: str, signature: str) -> None:
    folder = FIXTURES / "live_vllm_0.32" / "serve_fail"
    classifier = Classifier()
    for stream in ("stdout", "stderr"):
        if (path := folder / f"{name}.{stream}").exists():
            classifier.feed(path.read_text("utf-8"))
        classifier.new_stream()
    assert named(classifier.diagnosis()) == (cls, signature)


@needs_fixtures
@pytest.mark.parametrize("name", ["eager", "last", "tp2", "warm_notriton"])
def test_a_real_start_that_worked_shows_no_failure(name: str) -> None:
    classifier = Classifier()
    for stream in ("stdout", "stderr"):
        path = FIXTURES / "live_vllm_0.32" / "serve" / f"{name}.{stream}"
        classifier.feed(path.read_text("utf-8", errors="replace"))
        classifier.new_stream()
    assert classifier.diagnosis().failure is False


@given(st.permutations([*SECONDARY, *HARMLESS]), st.integers(0, len(SECONDARY) + len(HARMLESS)))
def test_a_consequence_never_wins_over_the_cause_wherever_it_stands(lines: list[str], place: int) -> None:
    log = [*lines[:place], PREFIX + CAUSE, *lines[place:]]
    found = classify("\n".join(log))
    assert named(found) == ("npu_busy", "free_memory_low")
    assert found.line is not None
    assert CAUSE in found.line
    assert {item["signature"] for item in found.secondary} == {
        "engine_init",
        "ascend_unknown",
        "engine_died",
        "hccl_fn",
    }


def test_of_two_causes_the_first_one_counts_and_the_other_is_kept() -> None:
    found = classify(f"{PREFIX}{CAUSE}\nOSError: [Errno 28] No space left on device\n")
    assert found.signature == "free_memory_low"
    assert [item["signature"] for item in found.secondary] == ["nospace"]


def test_a_weak_cause_yields_to_a_later_one() -> None:
    found = classify("EZ9999: Inner Error!\nnumHeads / numKvHeads = 16, MLA only support {32}\n")
    assert named(found) == ("unsupported_model", "mla_heads")


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60))
def test_how_a_log_is_cut_into_pieces_does_not_matter(sizes: list[int]) -> None:
    log = "\n".join([HARMLESS[0], HARMLESS[4], f"\x1b[31m{PREFIX}\x1b[0m{CAUSE}", *SECONDARY, ""])

    def pieces() -> Iterator[str]:
        place = 0
        for size in sizes:
            yield log[place : place + size]
            place += size
        yield log[place:]

    assert classify(pieces()) == classify(log)


@pytest.mark.parametrize(
    "text",
    [
        f"\x1b[0;36m(EngineCore_DP0 pid=4022)\x1b[0;0m \x1b[31mERROR\x1b[0m 01-01 00:00:41 [core.py:866] {CAUSE}\r\n",
        f"Loading safetensors checkpoint shards:  25% Completed\r{PREFIX}{CAUSE}\rLoading\r",
        f"(Worker_TP0 pid=1) INFO 01-01 00:00:41 [x.py:1] half(Worker_TP1 pid=2) ERROR 01-01 00:00:41 [x.py:1] {CAUSE}",
        f"[rank0]: {CAUSE}",
        f"{'x' * 40_000} {CAUSE}",
        CAUSE + "y" * 100_000,
    ],
    ids=["colours", "carriage returns", "glued ranks", "rank", "end of a long line", "start of a long line"],
)
def test_the_form_of_a_line_does_not_hide_the_cause(text: str) -> None:
    found = classify(text)
    assert found.signature == "free_memory_low"
    assert found.line is not None
    assert "\x1b" not in found.line
    assert len(found.line) <= 500


@pytest.mark.parametrize("line", HARMLESS[1:3])
def test_a_warning_that_quotes_a_failure_is_no_failure(line: str) -> None:
    assert classify(line).signature is None


def test_errors_of_an_optional_plugin_are_passed_over_with_their_traceback() -> None:
    head = "ERROR 01-01 00:00:02 [__init__.py:76] "
    lines = ["Failed to load plugin ms_service_profiler", "Traceback (most recent call last):"]
    lines.append("ImportError: libms.so: cannot open shared object file: No such file or directory")
    log = "".join(f"{head}{line}\n" for line in lines)
    assert classify(log + "INFO:     Application startup complete.\n").cls == "ready"
    assert classify(log + "OSError: [Errno 24] Too many open files\n").signature == "nofile"


def test_an_unknown_failure_is_unclassified_with_its_first_error_and_its_end() -> None:
    lines = [*HARMLESS, "Traceback (most recent call last):", "  File x", "acme.WeirdError: it broke", "the end"]
    found = classify("\n".join(lines))
    assert named(found) == ("unclassified", None)
    assert found.line == "acme.WeirdError: it broke"
    assert found.tail.endswith("the end")
    assert found.failure


def test_an_error_line_without_an_exception_is_shown_too() -> None:
    found = classify("ERROR 01-01 00:00:41 [x.py:1] the flux is gone\nbye\n")
    assert found.cls == "unclassified"
    assert found.line is not None
    assert "the flux is gone" in found.line


@pytest.mark.parametrize("text", ["", "\n\r\n", "\x00\x1b["])
def test_an_empty_log_explains_nothing(text: str) -> None:
    found = classify(text)
    assert (found.cls, found.line, found.secondary) == ("unclassified", None, [])


def test_a_note_counts_only_without_an_error() -> None:
    ready = "INFO:     Application startup complete.\n"
    assert classify(ready).cls == "ready"
    assert classify(ready + "acme.WeirdError: later\n").cls == "unclassified"
    assert classify("Loading safetensors checkpoint shards:  25% Completed\n").cls == "progress"


def test_the_phase_of_the_failing_line_is_told() -> None:
    log = f"(Worker pid=1) INFO 01-01 00:00:01 [m.py:1] Starting to load model /m...\n{PREFIX}{CAUSE}\n"
    log += "(Worker pid=1) INFO 01-01 00:00:09 [m.py:1] Graph capturing finished in 20 secs\n"
    assert classify(log).phase == "weights"


def test_secrets_in_a_log_are_masked() -> None:
    found = classify("vllm: error: unrecognized arguments: --api-key sk-12345678 --other\n")
    assert found.line is not None
    assert "sk-12345678" not in found.line + found.tail


def test_memory_is_bounded_however_long_the_log_is() -> None:
    line = 'INFO:     127.0.0.1:48202 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    block = line * (CHUNK // len(line))
    classifier = Classifier()
    classifier.feed(f"{PREFIX}{CAUSE}\n")
    tracemalloc.start()
    try:
        for _ in range(3):
            classifier.feed(block)
            classifier.feed("z" * CHUNK)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 * CHUNK
    assert classifier.diagnosis().signature == "free_memory_low"


@settings(max_examples=50)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    found = classify(text)
    assert found.cls
    assert found.hint


def test_noise_of_any_bytes_does_not_take_long() -> None:
    words = ["a.b.", "lib", "aclnn", "(", "Loading ", "E", "Error", ".", " ", "{", "No module named '", "\\"]
    dice = random.Random(1)  # noqa: S311 - nothing secret
    began = time.monotonic()
    assert classify("".join(dice.choices(words, k=150_000))).hint
    assert time.monotonic() - began < 10
