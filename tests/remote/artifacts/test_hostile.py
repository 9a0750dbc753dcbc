from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pairs import pair, place, receive

from vaws_mcp.worker import wire
from vaws_mcp.worker.engine.artifacts.entries import load_manifest
from vaws_mcp.worker.engine.artifacts.flow import Watch, receive_tree, send_tree
from vaws_mcp.worker.engine.artifacts.link import LinkLost
from vaws_mcp.worker.engine.artifacts.plan import Wish
from vaws_mcp.worker.refusal import Refusal

ROOT = ["", "d", 0o755, 0, 1, ""]


def listing(*rows: list[Any]) -> bytes:
    return json.dumps([ROOT, *rows]).encode()


def file_row(name: str, size: int = 1) -> list[Any]:
    return [name, "f", 0o644, size, 1, ""]


def link_row(name: str, target: str) -> list[Any]:
    return [name, "l", 0o777, 0, 1, target]


@pytest.mark.parametrize(
    "name", ["../x", "..", "/etc/passwd", "a/../x", "./x", "x/", "", "a//b", "missing/x", "a\0b", "n" * 256, "file/x"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(Refusal) as refused:
        load_manifest(listing(["a", "d", 0o755, 0, 1, ""], file_row("file"), file_row(name)))
    assert refused.value.code == "unsafe_manifest"


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../x", "a/../../x", "", "a/./../..", "a/up/../.."])
def test_a_link_that_leads_outside_is_refused_by_name(target: str) -> None:
    with pytest.raises(Refusal) as refused:
        load_manifest(listing(["a", "d", 0o755, 0, 1, ""], link_row("a/up", ".."), link_row("evil", target)))
    assert refused.value.code == "unsafe_link"
    assert "evil" in refused.value.message


def test_links_that_lead_outside_together_are_refused() -> None:
    rows = [["c", "d", 0o755, 0, 1, ""], ["c/d", "d", 0o755, 0, 1, ""], link_row("c/d/s", "../..")]
    load_manifest(listing(*rows))
    with pytest.raises(Refusal, match="evil"):
        load_manifest(listing(*rows, link_row("evil", "c/d/s/../y")))


def test_links_inside_and_in_circles_are_allowed() -> None:
    rows = [["a", "d", 0o755, 0, 1, ""], link_row("a/x", "../a/y"), link_row("a/y", "x"), link_row("z", "./a//nothing")]
    assert len(load_manifest(listing(*rows))) == 5


@pytest.mark.parametrize(
    "rows",
    [
        [file_row("x"), file_row("x")],
        [link_row("x", "."), file_row("x/y")],
        [["x", "b", 0, 0, 1, ""]],
        [["x", "f", 0o644, -1, 1, ""]],
        [["x", "f", 0o644, 1, 1 << 70, ""]],
        [["x", "f", 0o644, "1", 1, ""]],
        [["x", "f", True, 1, 1, ""]],
        [["x"]],
        [None],
        [["\ud800", "f", 0o644, 1, 1, ""]],
        [[7, "f", 0o644, 1, 1, ""]],
    ],
)
def test_a_list_that_makes_no_sense_is_refused(rows: list[Any]) -> None:
    with pytest.raises(Refusal) as refused:
        load_manifest(json.dumps([ROOT, *rows]).encode())
    assert refused.value.code == "unsafe_manifest"


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"[1]", b"\xff", b'"x"', b"null"])
def test_what_is_no_list_of_entries_is_refused(raw: bytes) -> None:
    with pytest.raises(Refusal):
        load_manifest(raw)


def test_set_id_bits_are_not_taken_over() -> None:
    assert load_manifest(listing(["x", "f", 0o6755, 1, 1, ""]))[1].mode == 0o755


def offer(target: Path, head: dict[str, Any], body: bytes, size: int = 5) -> None:
    """Let a sender offer one file, and answer whatever is needed with this frame and the end."""
    evil, good = pair()
    evil.send({"manifest": 2}, [listing(file_row("x", size))])
    evil.send(head, [body])
    evil.send({"end": {"files": 1, "bytes": size, "spared_bytes": 0}, "changed": []})
    receive(good, target)


SHA = hashlib.sha256(b"hello").hexdigest()


def test_an_honest_sender_is_believed(tmp_path: Path) -> None:
    offer(tmp_path / "t", {"pieces": [[1, 0, 5, SHA]]}, b"hello")
    assert (tmp_path / "t" / "x").read_bytes() == b"hello"


def test_bytes_with_another_hash_are_refused_and_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        offer(tmp_path / "t", {"pieces": [[1, 0, 5, SHA]]}, b"hallo")
    assert refused.value.code == "checksum_mismatch"
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ([[0, 0, 5, SHA]], b"hello"),
        ([[7, 0, 5, SHA]], b"hello"),
        ([[1, 3, 5, SHA]], b"hello"),
        ([[1, 0, 6, SHA]], b"hello!"),
        ([[1, 0, 4, SHA]], b"hello"),
        ([[1, 0, 5, None]], b"hello"),
        ([[1, 0, -1, None]], b""),
        ([[1, 0, 5, SHA], [1, 0, 5, SHA]], b"hellohello"),
        ([[1, 5, 0, SHA]], b""),
    ],
)
def test_pieces_that_were_not_asked_for_are_refused(tmp_path: Path, pieces: list[Any], body: bytes) -> None:
    with pytest.raises((wire.FrameError, Refusal)):
        offer(tmp_path / "t", {"pieces": pieces}, body)
    assert not (tmp_path / "t").exists()


def test_a_link_in_the_target_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "t" / "x").symlink_to(tmp_path / "victim")
    offer(tmp_path / "t", {"pieces": [[1, 0, 5, SHA]]}, b"hello")
    assert (tmp_path / "victim").read_bytes() == b"old"
    assert (tmp_path / "t" / "x").read_bytes() == b"hello"
    assert not (tmp_path / "t" / "x").is_symlink()


def test_a_linked_directory_in_the_target_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "t" / "d").symlink_to(tmp_path / "elsewhere")
    evil, good = pair()
    evil.send({"manifest": 3}, [listing(["d", "d", 0o755, 0, 1, ""], file_row("d/x", 5))])
    evil.send({"pieces": [[2, 0, 5, SHA]]}, [b"hello"])
    with pytest.raises(Refusal) as refused:
        receive(good, tmp_path / "t")
    assert refused.value.code == "type_conflict"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_sender_that_stops_ends_the_transfer(tmp_path: Path) -> None:
    evil, good = pair()
    evil.send({"manifest": 2}, [listing(file_row("x", 5))])
    good.inbox.close("the connection ended")
    with pytest.raises(LinkLost):
        receive(good, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def exchange_for_link(folder: Path, elsewhere: Path) -> None:
    """Put a link in the place of a directory, as somebody may do while a transfer is under way."""
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(elsewhere)


class Exchanging(Watch):
    """Exchanges a directory when it is known how much there is to move: then the comparison is over."""

    def __init__(self, folder: Path, elsewhere: Path) -> None:
        super().__init__()
        self.folder, self.elsewhere = folder, elsewhere

    def expect(self, count: int) -> None:
        super().expect(count)
        exchange_for_link(self.folder, self.elsewhere)


@pytest.mark.parametrize("rows", [[file_row("d/x", 5)], [link_row("d/x", "y")], [["d/x", "d", 0o755, 0, 1, ""]]])
def test_a_directory_that_becomes_a_link_meanwhile_is_not_written_through(tmp_path: Path, rows: list[Any]) -> None:
    (tmp_path / "t" / "d").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    evil, good = pair()
    evil.send({"manifest": 3}, [listing(["d", "d", 0o755, 0, 1, ""], *rows)])
    if rows[0][1] == "f":
        evil.send({"pieces": [[2, 0, 5, SHA]]}, [b"hello"])
    evil.send({"end": {"files": 1, "bytes": 5, "spared_bytes": 0}, "changed": []})
    with pytest.raises(Refusal) as refused:
        receive_tree(good, place(tmp_path / "t"), Wish(), Exchanging(tmp_path / "t" / "d", tmp_path / "elsewhere"))
    assert refused.value.code == "not_a_directory"
    assert str(tmp_path / "t" / "d") in refused.value.message
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_directory_that_becomes_a_link_meanwhile_is_not_deleted_through(tmp_path: Path) -> None:
    (tmp_path / "t" / "d").mkdir(parents=True)
    (tmp_path / "t" / "d" / "x").write_bytes(b"extra")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_bytes(b"precious")
    evil, good = pair()
    evil.send({"manifest": 2}, [listing(["d", "d", 0o755, 0, 1, ""])])
    evil.send({"end": {"files": 0, "bytes": 0, "spared_bytes": 0}, "changed": []})
    watch = Exchanging(tmp_path / "t" / "d", tmp_path / "elsewhere")
    with pytest.raises(Refusal):
        receive_tree(good, place(tmp_path / "t"), Wish(delete=True), watch)
    assert (tmp_path / "elsewhere" / "x").read_bytes() == b"precious"


def test_a_directory_that_becomes_a_link_meanwhile_is_not_read_through(tmp_path: Path) -> None:
    (tmp_path / "t" / "d").mkdir(parents=True)
    (tmp_path / "t" / "d" / "key").write_bytes(b"own")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "key").write_bytes(b"top")
    sender, good = pair()

    def exchange(_entries: list[Any]) -> None:
        exchange_for_link(tmp_path / "t" / "d", tmp_path / "elsewhere")
        good.send({"needs": 1}, [json.dumps([[2, 0, ""]]).encode()])

    with pytest.raises(Refusal) as refused:
        send_tree(sender, bytes(tmp_path / "t"), Watch(), dry_run=False, allowed=exchange)
    assert refused.value.code == "not_a_directory"
