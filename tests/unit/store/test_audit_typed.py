"""What is typed into a program may be a password: of it only the length is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaws_mcp.store.audit import audit


@pytest.mark.parametrize(
    ("operation", "name"),
    [("remote_bash", "stdin"), *(("job_stdin", name) for name in ("data", "text", "input", "chars"))],
)
def test_what_is_typed_is_not_written_down(tmp_path: Path, operation: str, name: str) -> None:
    audit(tmp_path, operation, {"endpoint": "box", name: "hunter2\n"}, {"outcome": "success"})
    line = (tmp_path / "audit.jsonl").read_text()
    assert "hunter2" not in line
    assert "(8 characters)" in line


def test_a_patch_is_written_down_without_the_keys_in_it(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n+-----BEGIN OPENSSH PRIVATE KEY-----\n+b3BlbnNz"
    audit(tmp_path, "remote_apply_patch", {"input": patch}, {"outcome": "success"})
    line = (tmp_path / "audit.jsonl").read_text()
    assert "Begin Patch" in line
    assert "b3BlbnNz" not in line
