"""Event files can be written by many and read while they grow."""

from __future__ import annotations

import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.store.events import Follower, append_event


def test_an_absent_file_has_no_events(tmp_path: Path) -> None:
    assert list(Follower(tmp_path / "none.jsonl").new_events()) == []


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    follower = Follower(path)
    path.write_bytes(b'{"n":1}\n{"n"')
    assert list(follower.new_events()) == [{"n": 1}]
    assert list(follower.new_events()) == []
    with path.open("ab") as file:
        file.write(b":2}\n")
    assert list(follower.new_events()) == [{"n": 2}]


def test_lines_that_are_no_objects_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'torn{\n[1]\n\n"x"\n\xff\n{"n":1}\n')
    assert list(Follower(path).new_events()) == [{"n": 1}]


def test_lines_of_several_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"

    def write(name: int) -> None:
        for number in range(50):
            append_event(path, {"writer": name, "number": number, "text": "x" * 5000})

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = list(Follower(path).new_events())
    for name in range(4):
        assert [event["number"] for event in events if event["writer"] == name] == list(range(50))


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=2), max_size=6), st.data())
def test_any_growth_of_the_file_gives_every_event_once(events: list[dict[str, str]], data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        for event in events:
            append_event(whole, event)
        raw = whole.read_bytes() if events else b""
        cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
        path = Path(folder) / "growing"
        follower, seen = Follower(path), list[dict[str, str]]()
        for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
            with path.open("ab") as file:
                file.write(raw[begin:end])
            seen += follower.new_events()
        assert seen == events
