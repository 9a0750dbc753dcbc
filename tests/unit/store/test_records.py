"""Records are whole or absent, and what is not ours is never touched."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.core.files import write_atomic
from vaws_mcp.store import records
from vaws_mcp.store.audit import audit
from vaws_mcp.store.events import Follower
from vaws_mcp.store.records import Record, load, locked, save


class Sample(Record):
    schema_: Literal["vaws.sample.v1"] = Field(default="vaws.sample.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    count: int


def test_a_record_comes_back_and_carries_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "sample.json"
    save(path, Sample(count=3))
    assert load(path, Sample) == Sample(count=3)
    assert path.read_text().startswith('{\n  "schema": "vaws.sample.v1"')
    assert [entry.name for entry in path.parent.iterdir()] == ["sample.json"]


def test_an_absent_record_is_not_a_torn_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json", Sample)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"schema": "vaws.sam', "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "schema is None"),
        (b'{"schema": "vaws.sample.v2", "count": 1}', "'vaws.sample.v2'"),
        (b'{"schema": "vaws.sample.v1", "count": "many"}', "field count"),
        (b'{"schema": "vaws.sample.v1"}', "field count"),
    ],
)
def test_a_torn_or_foreign_file_is_named_and_left_alone(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "sample.json"
    path.write_bytes(content)
    with pytest.raises(Failure, match=why) as caught:
        load(path, Sample)
    assert caught.value.code == "torn_record"
    assert str(path) in caught.value.message
    assert path.read_bytes() == content


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_readers_see_only_whole_files_while_a_writer_works(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [letter * 100_000 for letter in (b"a", b"b")]
    write_atomic(path, contents[0])
    writer = threading.Thread(target=lambda: [write_atomic(path, contents[turn % 2]) for turn in range(40)])
    writer.start()
    while writer.is_alive():
        assert path.read_bytes() in contents
    writer.join()


def test_locked_changes_are_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    save(path, Sample(count=0))

    def add() -> None:
        for _ in range(10):
            with locked(path):
                save(path, Sample(count=load(path, Sample).count + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load(path, Sample).count == 40


def test_a_lock_that_stays_taken_is_said_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LOCK_WAIT_S", 0.05)
    path = tmp_path / "sample.json"
    with locked(path), pytest.raises(Blocked, match=r"sample\.json\.lock"), locked(path):
        pytest.fail("the lock was given twice")


def test_the_audit_keeps_who_and_what_but_no_secret(tmp_path: Path) -> None:
    request = {"command": "export HF_TOKEN=abc123", "env": {"API_KEY": "abc123"}, "content": "x" * 2000}
    audit(tmp_path, "remote_write", request, {"status": "failed", "outcome": "failed", "error": {"code": "disk_full"}})
    (line,) = Follower(tmp_path / "audit.jsonl").new_events()
    assert (line["operation"], line["code"], line["outcome"]) == ("remote_write", "disk_full", "failed")
    assert "abc123" not in str(line)
    assert line["request"]["content"].endswith("… (2000 characters)")
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_the_audit_takes_any_text(tmp_path: Path) -> None:
    audit(tmp_path, "remote_bash", {"command": "echo \udcff"}, {})
    (line,) = Follower(tmp_path / "audit.jsonl").new_events()
    assert line["request"]["command"] == "echo \ufffd"
