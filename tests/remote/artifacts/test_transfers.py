from __future__ import annotations

import hashlib
import os
from pathlib import Path

import anyio
import pytest
from moving import Mover, contents, leftovers, staged

from tests.connect.places import Server, until


def odd_tree(root: Path) -> None:
    """Names of every kind, files of mode 0, an executable, and links inside of the tree."""
    deep = root / "-deep dir"
    (deep / "$(touch x)").mkdir(parents=True)
    for name in (b"plain", b"-rf", b"a b", b"new\nline", b"'\"", b"\xff\xfe\\x", b"n" * 255, b"empty"):
        path = deep / os.fsdecode(name)
        path.write_bytes(b"" if name == b"empty" else name * 100)
        os.utime(path, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    (root / "empty dir").mkdir(mode=0o700)
    (deep / "plain").chmod(0o755)
    (deep / "empty").chmod(0)
    (root / "up").symlink_to("-deep dir/../-deep dir/plain")
    (deep / "dangling").symlink_to("nothing here")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.asyncio
async def test_odd_names_modes_and_links_go_there_and_back(mover: Mover, here: Path, there: Path) -> None:
    odd_tree(here / "tree")
    async with mover.open() as caller:
        pushed = await caller.push(here / "tree", there / "new" / "copy")
        assert pushed["outcome"] == "success", pushed
        assert contents(there / "new" / "copy") == contents(here / "tree")
        pulled = await caller.pull(there / "new" / "copy", here / "back")
    assert contents(here / "back") == contents(here / "tree")
    assert (pulled["files"], pulled["folders"], pulled["links"]) == (8, 4, 2)


@pytest.mark.asyncio
async def test_only_what_changed_is_sent_again(mover: Mover, here: Path, there: Path) -> None:
    odd_tree(here / "tree")
    async with mover.open() as caller:
        await caller.push(here / "tree", there / "copy")
        again = await caller.push(here / "tree", there / "copy")
        assert (again["sent_files"], again["unchanged"]) == (0, 10)
        (here / "tree" / "-deep dir" / "a b").write_bytes(b"other")
        (there / "copy" / "extra").write_bytes(b"")
        changed = await caller.push(here / "tree", there / "copy")
        assert (changed["sent_files"], changed["sent_bytes"], changed["deleted"]) == (1, 5, [])
        planned = await caller.push(here / "tree", there / "copy", delete=True, dry_run=True)
        assert (planned["deleted"], (there / "copy" / "extra").exists()) == (["extra"], True)
        removed = await caller.push(here / "tree", there / "copy", delete=True)
    assert removed["deleted"] == ["extra"]
    assert contents(there / "copy") == contents(here / "tree")


@pytest.mark.asyncio
async def test_a_file_goes_into_a_directory_under_its_own_name(mover: Mover, here: Path, there: Path) -> None:
    (here / "file").write_bytes(b"content")
    async with mover.open() as caller:
        pushed = await caller.push(here / "file", there)
        pulled = await caller.pull(there / "file", str(here / "new") + "/")
    assert pushed["remote_path"] == str(there / "file")
    assert pulled["local_path"] == str(here / "new" / "file")
    assert (here / "new" / "file").read_bytes() == (there / "file").read_bytes() == b"content"
    assert pushed["sha256"] == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"


@pytest.mark.asyncio
async def test_a_refusal_names_the_path_and_the_layer(mover: Mover, here: Path, there: Path) -> None:
    (here / "tree").mkdir()
    (here / "tree" / "evil").symlink_to("/etc/passwd")
    os.mkfifo(there / "pipe")
    async with mover.open() as caller:
        out = (await caller.push(here / "tree", there / "x"))["error"]
        assert (out["code"], out["layer"]) == ("unsafe_link", "local")
        assert "evil" in out["message"]
        missing = (await caller.push(here / "missing", there / "x"))["error"]
        assert (missing["code"], missing["layer"]) == ("not_found", "local")
        special = (await caller.pull(there / "pipe", here / "x"))["error"]
        assert (special["code"], special["layer"]) == ("special_file", "remote_env")
        absent = (await caller.pull(there / "absent", here / "x"))["error"]
        assert (absent["code"], absent["layer"], str(there / "absent") in absent["message"]) == (
            "not_found",
            "remote_env",
            True,
        )
    assert not (there / "x").exists()
    assert not (here / "x").exists()


@pytest.mark.asyncio
async def test_a_directory_that_is_not_writable_is_named(mover: Mover, here: Path, there: Path) -> None:
    (here / "file").write_bytes(b"x")
    async with mover.open() as caller:
        answer = await caller.push(here / "file", "/proc/self/file")
    assert answer["outcome"] == "failed"
    assert "/proc/" in answer["error"]["message"]


@pytest.mark.asyncio
async def test_a_manifest_lists_pages_with_hashes_and_what_cannot_be_moved(mover: Mover, there: Path) -> None:
    odd_tree(there / "tree")
    os.mkfifo(there / "tree" / "pipe")
    (there / "tree" / "zz").symlink_to("/etc")
    async with mover.open() as caller:
        first = await caller.manifest(there / "tree", limit=7)
        rest = await caller.manifest(there / "tree", offset=7)
        bare = await caller.manifest(there / "tree", checksum=False)
    rows = first["entries"] + rest["entries"]
    assert (first["next_offset"], rest["next_offset"], len(rows)) == (7, None, first["total_entries"])
    assert first["unmovable"] == {"special": ["pipe"], "unsafe_links": ["zz"]}
    plain = next(row for row in rows if row["path"] == "-deep dir/plain")
    assert (plain["mode"], plain["size"], plain["mtime_ns"]) == ("0755", 500, 1_700_000_000_123_456_789)
    assert plain["sha256"] == hashlib.sha256(b"plain" * 100).hexdigest()
    odd = next(row for row in rows if row["escaped"])
    assert odd["path"] == "-deep dir/\\xff\\xfe\\\\x"
    assert {row["sha256"] for row in bare["entries"]} == {None}


@pytest.mark.asyncio
async def test_file_operations_stay_below_the_root_of_the_endpoint(server: Server, here: Path, there: Path) -> None:
    state_dir = here / "state"
    (there / "open").mkdir()
    (there / "secret").write_bytes(b"secret")
    (there / "open" / "way").symlink_to("..")
    (there / "open" / "tree").mkdir()
    (there / "open" / "tree" / "key.pem").write_bytes(b"key")
    server.register(state_dir, root=str(there / "open"), deny_paths=["*.pem"])
    (here / "file").write_bytes(b"x")
    async with Mover(state_dir, "box").open() as caller:
        codes = [
            (await caller.push(here / "file", there / "outside"))["error"]["code"],
            (await caller.push(here / "file", there / "open" / "way" / "outside"))["error"]["code"],
            (await caller.pull(there / "secret", here / "got"))["error"]["code"],
            (await caller.pull(there / "open" / "way" / "secret", here / "got"))["error"]["code"],
            (await caller.manifest(there))["error"]["code"],
            (await caller.pull(there / "open" / "tree", here / "got"))["error"]["code"],
            (await caller.push(here / "file", there / "open" / "x.pem"))["error"]["code"],
        ]
        inside = await caller.push(here / "file", there / "open" / "fine")
    assert codes == ["outside_root"] * 5 + ["path_denied"] * 2
    assert inside["outcome"] == "success"
    assert not (here / "got").exists()
    assert names(there) == ["open", "secret"]


@pytest.mark.asyncio
async def test_an_endpoint_to_read_from_lets_files_be_fetched(server: Server, here: Path, there: Path) -> None:
    server.register(here / "state", read_only=True)
    (there / "file").write_bytes(b"x")
    async with Mover(here / "state", "box").open() as caller:
        assert (await caller.pull(there / "file", here / "file"))["outcome"] == "success"
        assert (await caller.push(here / "file", there / "other"))["error"]["code"] == "read_only"


@pytest.mark.asyncio
async def test_progress_counts_bytes_up_to_the_whole(mover: Mover, here: Path, there: Path) -> None:
    (here / "big").write_bytes(os.urandom(1 << 20) * 64)
    async with mover.open() as caller:
        await caller.push(here / "big", there / "big")
        seen = [event.progress for event in caller.events]
        assert seen == sorted(event for event in seen if event is not None)
        assert (caller.events[-1].progress, caller.events[-1].total) == (64 << 20, 64 << 20)


@pytest.mark.asyncio
async def test_a_call_that_stops_waiting_finds_its_transfer_again(mover: Mover, here: Path, there: Path) -> None:
    (here / "big").write_bytes(os.urandom(1 << 20) * 64)
    async with mover.open() as caller:
        running = await caller.push(here / "big", there / "big", wait_s=0)
        assert (running["status"], running["outcome"]) == ("running", "success")
        assert "again" in running["hint"]
        done = await caller.push(here / "big", there / "big")
        assert (done["status"], done["sent_bytes"]) == ("ok", 64 << 20)
    assert (there / "big").read_bytes() == (here / "big").read_bytes()


@pytest.mark.asyncio
@pytest.mark.parametrize("pushes", [True, False])
async def test_a_cancelled_transfer_leaves_the_old_file_and_goes_on_later(
    mover: Mover, here: Path, there: Path, pushes: bool
) -> None:
    source, target = (here / "big", there / "big") if pushes else (there / "big", here / "big")
    source.write_bytes(os.urandom(1 << 20) * 128)
    target.write_bytes(b"old")
    async with mover.open() as caller:
        move = caller.push if pushes else caller.pull
        async with anyio.create_task_group() as group:
            group.start_soon(move, source, target)
            await until(lambda: staged(target) > 1 << 20, "some bytes have arrived", 20)
            group.cancel_scope.cancel()
        assert target.read_bytes() == b"old"
        done = await move(source, target)
        assert done["outcome"] == "success", done
        assert done["spared_bytes"] > 0
        assert done["sent_bytes"] + done["spared_bytes"] == 128 << 20
    assert target.read_bytes() == source.read_bytes()
    assert not leftovers(target.parent)


@pytest.mark.asyncio
async def test_several_transfers_at_once_all_arrive(mover: Mover, here: Path, there: Path) -> None:
    for number in range(8):
        (here / str(number)).write_bytes(os.urandom(100_000 * number))
    async with mover.open() as caller, anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(caller.push, here / str(number), there / str(number))
    for number in range(8):
        assert (there / str(number)).read_bytes() == (here / str(number)).read_bytes()


@pytest.mark.asyncio
async def test_a_local_endpoint_moves_files_too(here: Path, there: Path) -> None:
    odd_tree(here / "tree")
    async with Mover(here / "state", "local").open() as caller:
        assert (await caller.push(here / "tree", there / "copy"))["outcome"] == "success"
        assert (await caller.pull(there / "copy", here / "back"))["outcome"] == "success"
    assert contents(here / "back") == contents(here / "tree")
