"""The end of a file that is too large to be counted in one call."""

from __future__ import annotations

from pathlib import Path

from worker_client import Client

from vaws_mcp.worker.engine.lines import WHOLE_FILE_BYTES


def test_what_is_cut_of_the_last_lines_is_said(worker: Client, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(WHOLE_FILE_BYTES)
        file.seek(0, 2)
        file.write(b"\n" + b"".join(b"%04d" % number + b"z" * 4000 + b"\n" for number in range(100)))
    params = {"path": str(path), "offset": -90, "max_bytes": 5000, "binary": "allow"}
    answer = worker.call("read", params)
    assert [line[:4] for line in answer.body.splitlines()] == [b"0010", b"0011"]
    assert answer.result["truncated_lines"] == [-90, -89]
    assert (answer.result["first_line"], answer.result["eof"]) == (None, False)
