"""The worker's ``ls``, ``glob`` and ``grep``: pages, odd names, limits, cancelling."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from search_trees import needs_rg, output

from tests.unit.worker.worker_client import Client, WorkerError

ENGINES = [pytest.param("rg", marks=needs_rg), "python"]
ODD = [
    b" a b",
    b"new\nline",
    b"'q\"",
    b"$(touch x)",
    b"-rf",
    b"\xff\xfe",
    b"back\\slash",
    b"*[x]",
    "中文".encode(),
    b"n" * 255,
]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    for name in ODD:
        (tmp_path / os.fsdecode(name)).write_bytes(b"one\nneedle here\nthree\n")
    return tmp_path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    for index in range(5):
        text = "".join(f"line {number}{' hit' if number % 4 == 0 else ''}\n" for number in range(1, 13))
        (tmp_path / f"f{index}.txt").write_text(text)
    return tmp_path


def unescaped(text: str) -> bytes:
    raw = text.encode()
    return re.sub(rb"\\(\\|x..)", lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1][1:], 16)]), raw)


def grep(worker: Client, path: Path, pattern: str, **params: Any) -> dict[str, Any]:
    return worker.call("grep", {"path": str(path), "pattern": pattern, **params}).result


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
def test_odd_names_are_found_and_can_be_turned_back(worker: Client, odd: Path, engine: str, mode: str) -> None:
    found = grep(worker, odd, "needle", engine=engine, output_mode=mode)
    names = [item["file"] for item in found["matches"]] if mode == "content" else found["files"]
    assert found["escaped"] is True
    assert sorted(unescaped(name) for name in names) == sorted(ODD)
    assert found["engine"] == engine


def test_names_stay_plain_while_all_are_utf8(worker: Client, odd: Path) -> None:
    (odd / os.fsdecode(b"\xff\xfe")).unlink()
    found = grep(worker, odd, "needle")
    assert found["escaped"] is False
    assert sorted(found["files"]) == sorted(name.decode() for name in ODD if name != b"\xff\xfe")


def test_an_escaped_name_can_be_given_back(worker: Client, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff\\x")
    folder.mkdir()
    (folder / "in").write_text("x\n")
    shown = worker.call("ls", {"path": str(tmp_path)}).result
    assert shown["entries"][0]["name"] == "d\\xff\\\\x"
    inside = f"{tmp_path}/{shown['entries'][0]['name']}"
    assert [entry["name"] for entry in worker.call("ls", {"path": inside, "escaped": True}).result["entries"]] == ["in"]
    with pytest.raises(WorkerError, match="escaped path"):
        worker.call("ls", {"path": "a\\q", "escaped": True})


@pytest.mark.parametrize("engine", ENGINES)
def test_pages_of_lines_join_to_the_whole(worker: Client, lines: Path, engine: str) -> None:
    whole = grep(worker, lines, "hit", output_mode="content", engine=engine)
    assert whole["matches"][0] == {"file": "f0.txt", "lines": ["4:line 4 hit", "8:line 8 hit", "12:line 12 hit"]}
    assert (whole["next_offset"], whole["total_files"], whole["shown_matches"]) == (None, 5, 15)
    joined: list[tuple[str, str]] = []
    offset: int | None = 0
    while offset is not None:
        page = grep(worker, lines, "hit", output_mode="content", engine=engine, head_limit=4, offset=offset)
        joined += [(item["file"], line) for item in page["matches"] for line in item["lines"]]
        offset = page["next_offset"]
    assert joined == [(item["file"], line) for item in whole["matches"] for line in item["lines"]]


def test_pages_of_files_join_to_the_whole(worker: Client, lines: Path) -> None:
    pages = [grep(worker, lines, "hit", head_limit=2, offset=offset, sort="path") for offset in (0, 2, 4)]
    assert [page["files"] for page in pages] == [["f0.txt", "f1.txt"], ["f2.txt", "f3.txt"], ["f4.txt"]]
    assert [page["next_offset"] for page in pages] == [2, 4, None]


@needs_rg
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 0), (0, 1), (2, 2), (5, 1), (20, 20)])
def test_lines_around_matches_are_those_of_rg(worker: Client, tmp_path: Path, before: int, after: int) -> None:
    text = "hit\n\nx\ny\nhit\nhit\nz\n1\n2\n3\n4\n5\nhit at end"
    (tmp_path / "f").write_text(text)
    found = grep(worker, tmp_path, "hit", output_mode="content", before=before, after=after)
    argv = ["rg", "-n", "--no-filename", f"-B{before}", f"-A{after}", "hit", "f"]
    assert found["matches"][0]["lines"] == output(*argv, cwd=tmp_path).decode().splitlines()


def test_multiline_matches_show_all_their_lines(worker: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\ndef f(\n  x,\n):\nb\n")
    found = grep(worker, tmp_path, r"def.*?\):", multiline=True, output_mode="content", after=1)
    assert found["matches"][0]["lines"] == ["2:def f(", "3:  x,", "4:):", "5-b"]
    assert grep(worker, tmp_path, r"def.*?\):", multiline=True, output_mode="count")["counts"] == [3]


@pytest.mark.parametrize("engine", ENGINES)
def test_filters_choose_files_and_never_bring_ignored_ones_back(worker: Client, tmp_path: Path, engine: str) -> None:
    names = ["a.py", "b.o", "src/c.py", "src/deep/d.py", "src/e.o", "build/f.py", ".hidden/g.py", "h.pyi", ".git/i.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    (tmp_path / ".gitignore").write_text("*.o\nbuild/\n!.hidden\n")

    def found(**params: Any) -> list[str]:
        return sorted(grep(worker, tmp_path, "x", engine=engine, **params)["files"])

    assert found(glob=["*.py"]) == [".hidden/g.py", "a.py", "src/c.py", "src/deep/d.py"]
    assert found(glob=["*.o"]) == []
    assert found(glob=["*.o"], respect_gitignore=False) == ["b.o", "src/e.o"]
    assert found(glob=["src/*.py"]) == ["src/c.py"]
    assert found(glob=["src/**"]) == ["src/c.py", "src/deep/d.py"]
    assert found(glob=["*.{py,pyi}"], exclude=["src"]) == [".hidden/g.py", "a.py", "h.pyi"]
    assert found(type="py", hidden=False) == ["a.py", "h.pyi", "src/c.py", "src/deep/d.py"]
    assert found(type="py", glob=["src/deep/*"]) == ["src/deep/d.py"]
    assert "build/f.py" in found(respect_gitignore=False)
    assert grep(worker, tmp_path / "build" / "f.py", "x")["files"] == ["f.py"]


@pytest.mark.parametrize("engine", ENGINES)
def test_binary_files_links_and_devices_are_left_out(worker: Client, tmp_path: Path, engine: str) -> None:
    (tmp_path / "bin").write_bytes(b"needle\n\0")
    (tmp_path / "text").write_bytes(b"needle \xff\n")
    (tmp_path / "link").symlink_to("text")
    os.mkfifo(tmp_path / "pipe")
    found = grep(worker, tmp_path, "needle", engine=engine, output_mode="content")
    assert found["matches"] == [{"file": "text", "lines": ["1:needle �"]}]
    assert found["replaced_bytes"] is True


def test_a_long_line_is_shown_around_its_match(worker: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("é" * 50_000 + "needle" + "é" * 50_000 + "\n")
    found = grep(worker, tmp_path, "needle", output_mode="content")
    line = found["matches"][0]["lines"][0]
    assert found["cut_lines"] == 1
    assert "needle" in line
    assert len(line.encode()) < 2100
    sizes = [int(number) for number in re.findall(r"\[… (\d+) bytes\]", line)]
    assert sum(sizes) + len(re.sub(r"^1:|\[… \d+ bytes\]| ", "", line).encode()) == 200_006
    assert found["replaced_bytes"] is False


def test_output_stops_at_its_limit_and_says_where_to_go_on(worker: Client, lines: Path) -> None:
    found = grep(worker, lines, "line", output_mode="content", max_output_bytes=30)
    assert (found["shown_matches"], found["next_offset"]) == (5, 5)


def test_an_endless_expression_ends_with_its_deadline_and_leaves_the_worker_alive(
    worker: Client, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text("a" * 60 + "\n")
    (tmp_path / "g").write_text("b\n")
    begin = time.monotonic()
    params = {"path": str(tmp_path), "pattern": "(a|aa)+[bc]$", "engine": "python"}
    found = worker.finish(worker.start("grep", params, deadline_s=0.7)).result
    assert found["timed_out"] is True
    assert found["complete"] is False
    assert time.monotonic() - begin < 5
    assert grep(worker, tmp_path, "b", engine="python")["files"] == ["g"]


def children(pid: int) -> list[str]:
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += (task / "children").read_text().split()
    return found


def ticks(pid: str) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11])


def test_cancelling_ends_the_searching_process(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 60 + "\n")
    worker = Client({"HOME": str(tmp_path)})
    try:
        number = worker.start("grep", {"path": str(tmp_path), "pattern": "(a|aa)+[bc]$", "engine": "python"})
        limit = time.monotonic() + 10
        while not any(ticks(pid) > 30 for pid in children(worker.process.pid)) and time.monotonic() < limit:
            time.sleep(0.05)
        busy = children(worker.process.pid)
        assert len(busy) == 1
        worker.send({"id": number, "cancel": True})
        with pytest.raises(WorkerError) as caught:
            worker.finish(number)
        assert caught.value.code == "cancelled"
        assert not Path(f"/proc/{busy[0]}").exists()
    finally:
        worker.close()


@needs_rg
def test_cancelling_ends_rg(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    slow = tmp_path / "bin" / "rg"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'ripgrep 13.0.0'\nexec sleep 60\n")
    slow.chmod(0o755)
    worker = Client({"HOME": str(tmp_path), "PATH": f"{slow.parent}:/usr/bin:/bin"})
    try:
        number = worker.start("grep", {"path": str(tmp_path), "pattern": "a"})
        limit = time.monotonic() + 10
        while not children(worker.process.pid) and time.monotonic() < limit:
            time.sleep(0.05)
        worker.send({"id": number, "cancel": True})
        with pytest.raises(WorkerError) as caught:
            worker.finish(number)
        assert caught.value.code == "cancelled"
        assert children(worker.process.pid) == []
    finally:
        worker.close()


@needs_rg
@pytest.mark.slow
def test_one_huge_line_is_searched_at_bounded_memory(worker: Client, tmp_path: Path) -> None:
    folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    if shutil.disk_usage(folder).free < 4 << 30:
        pytest.skip("needs 4 GiB in /dev/shm")
    path = folder / f"search-{os.getpid()}" / "huge"
    path.parent.mkdir()
    try:
        with path.open("wb") as file:
            for _ in range(1100):
                file.write(b"a" * (1 << 20))
            file.write(b"needle" + b"b" * (1 << 20))
        for target in (path.parent, path):
            found = grep(worker, target, "needle", output_mode="content")
            assert [item["file"] for item in found["matches"]] == ["huge"]
            assert "needle" in found["matches"][0]["lines"][0]
            assert found["cut_lines"] == 1
        for pid in [str(worker.process.pid), *children(worker.process.pid)]:
            status = Path(f"/proc/{pid}/status").read_text()
            assert int(re.findall(r"RssAnon:\s+(\d+)", status)[0]) < 100 << 10
    finally:
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def test_what_cannot_be_searched_is_refused_by_name(worker: Client, tmp_path: Path) -> None:
    for params, code in (
        ({"path": str(tmp_path / "none"), "pattern": "x"}, "not_found"),
        ({"path": "/dev/null", "pattern": "x"}, "not_a_file"),
        ({"path": str(tmp_path), "pattern": "(x"}, "bad_pattern"),
        ({"path": str(tmp_path), "pattern": "x", "type": "cobol"}, "bad_params"),
    ):
        with pytest.raises(WorkerError) as caught:
            worker.call("grep", params)
        assert caught.value.code == code
    for pattern in ("/etc/*", "../*"):
        with pytest.raises(WorkerError, match="relative"):
            worker.call("glob", {"path": str(tmp_path), "pattern": pattern})


def test_denied_files_are_never_shown(worker: Client, lines: Path) -> None:
    policy = {"root": str(lines), "deny_paths": ["f1.txt"]}
    for mode in ("files_with_matches", "content", "count"):
        found = grep(worker, lines, "hit", policy=policy, output_mode=mode)
        assert found["total_files"] == 4
        assert "f1.txt" not in str(found)
    assert worker.call("glob", {"path": str(lines), "pattern": "*", "policy": policy}).result["total"] == 4
    assert len(worker.call("ls", {"path": str(lines), "policy": policy}).result["entries"]) == 4


def test_glob_gives_newest_first_by_pages(worker: Client, tmp_path: Path) -> None:
    for index, name in enumerate(["b", "a", "d/c", ".x"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 + index, 1000 + index))

    def glob(**params: Any) -> tuple[list[str], int | None]:
        found = worker.call("glob", {"path": str(tmp_path), "pattern": "**/*", **params}).result
        return found["files"], found["next_offset"]

    assert glob() == ([".x", "d/c", "a", "b"], None)
    assert glob(limit=2) == ([".x", "d/c"], 2)
    assert glob(limit=2, offset=2) == (["a", "b"], None)
    assert glob(sort="path", hidden=False) == (["a", "b", "d/c"], None)
    assert glob(pattern="d/*") == (["d/c"], None)
    assert glob(pattern="none/*") == ([], None)


def test_ls_tells_kinds_modes_and_targets(worker: Client, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("12345")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".dot").touch()
    found = worker.call("ls", {"path": str(tmp_path)}).result
    kinds = {entry["name"]: entry["kind"] for entry in found["entries"]}
    assert kinds == {"dir": "directory", "file": "file", "link": "symlink", "pipe": "fifo"}
    assert (found["total"], found["hidden"], found["next_offset"]) == (4, 1, None)
    entries = {entry["name"]: entry for entry in found["entries"]}
    assert entries["link"]["target"] == "nowhere"
    assert (entries["file"]["mode"], entries["file"]["size"]) == (0o640, 5)
    page = worker.call("ls", {"path": str(tmp_path), "all": True, "limit": 2, "offset": 2}).result
    assert ([entry["name"] for entry in page["entries"]], page["total"], page["next_offset"]) == (
        ["file", "link"],
        5,
        4,
    )
