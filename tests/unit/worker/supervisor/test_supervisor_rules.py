"""The pure rules: who goes first, what may be given, and how far a lease is proven to reach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.worker.engine.npu.probe import Seen
from vaws_mcp.worker.facts.npu.models import Device, Process
from vaws_mcp.worker.refusal import Refusal
from vaws_mcp.worker.supervisor import choose, scope
from vaws_mcp.worker.supervisor.choose import DeviceWish, Known
from vaws_mcp.worker.supervisor.scope import Mount
from vaws_mcp.worker.supervisor.tickets import ALL_DEVICES, Entry, ahead, overlap
from vaws_mcp.worker.supervisor.wishes import parse_needs

KEYS = st.frozensets(st.sampled_from(["a", "b", "c", "port-1-80", "port-1-81", ALL_DEVICES]), min_size=1, max_size=3)
QUEUE = st.lists(KEYS, min_size=1, max_size=8)
LEASED = "/tmp/vaws-leases"


def entries(queue: list[frozenset[str]]) -> list[Entry]:
    return [Entry(number, keys, {}) for number, keys in enumerate(queue)]


def numbers(queue: list[Entry]) -> set[int]:
    return {entry.number for entry in queue}


@given(QUEUE)
def test_exactly_the_earlier_overlapping_tickets_go_first(queue: list[frozenset[str]]) -> None:
    every = entries(queue)
    for entry in every:
        first = numbers(ahead(entry.number, entry.keys, reversed(every)))
        assert first == numbers([other for other in every[: entry.number] if overlap(other.keys, entry.keys)])


@given(QUEUE)
def test_the_queue_always_moves_and_no_two_that_overlap_move_together(queue: list[frozenset[str]]) -> None:
    every = entries(queue)
    moving = [entry for entry in every if not ahead(entry.number, entry.keys, every)]
    assert moving
    assert not any(overlap(one.keys, other.keys) for one in moving for other in moving if one is not other)


@given(QUEUE, st.data())
def test_a_newcomer_puts_nobody_back_and_a_death_only_helps(queue: list[frozenset[str]], data: st.DataObject) -> None:
    every = entries(queue)
    fewer = [entry for entry in every if data.draw(st.booleans())]
    for entry in fewer:
        before = numbers(ahead(entry.number, entry.keys, every))
        assert numbers(ahead(entry.number, entry.keys, [*every, Entry(99, frozenset((ALL_DEVICES,)), {})])) == before
        assert numbers(ahead(entry.number, entry.keys, fewer)) <= before


@given(KEYS, KEYS)
def test_overlap_is_mutual_and_any_device_means_every_device(one: frozenset[str], other: frozenset[str]) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one)
    if ALL_DEVICES in one:
        assert overlap(one, other) == (bool(one & other) or any(not key.startswith("port-") for key in other))


KNOWN = {logic: Known(logic, f"k{logic}", f"l{logic}", npu=logic // 2, chip=logic % 2) for logic in range(8)}


@given(st.integers(1, 8), st.frozensets(st.integers(0, 7)))
def test_any_devices_are_chosen_whenever_there_are_enough(count: int, without: frozenset[int]) -> None:
    chosen = choose.pick(DeviceWish(how_many=count), KNOWN, without)
    assert (chosen is not None) == (len(KNOWN) - len(without) >= count)
    if chosen is not None:
        logics = [device.logic for device in chosen]
        assert logics == sorted(set(logics))
        assert (len(logics), without & set(logics)) == (count, frozenset())


@pytest.mark.parametrize(
    ("count", "without", "logics"),
    [(2, {0}, [2, 3]), (2, {0, 2, 4, 6}, [1, 3]), (4, {1}, [2, 3, 4, 5]), (1, set(), [0]), (3, {0, 1}, [2, 3, 4])],
)
def test_devices_of_one_card_and_neighbours_are_preferred(count: int, without: set[int], logics: list[int]) -> None:
    chosen = choose.pick(DeviceWish(how_many=count), KNOWN, frozenset(without))
    assert chosen is not None
    assert [device.logic for device in chosen] == logics


def seen(occupancy: str, processes: int = 0) -> Seen:
    device = Device(npu=0, logic=0, processes=[Process(pid) for pid in range(1, processes + 1)])
    return Seen(device, occupancy, "So it is.")


@pytest.mark.parametrize(
    ("found", "wish", "usable"),
    [
        (seen("free"), DeviceWish(), True),
        (seen("occupied"), DeviceWish(assume_free=True, skip_health=True), False),
        (seen("unknown"), DeviceWish(skip_health=True), False),
        (seen("unknown"), DeviceWish(assume_free=True), True),
        (seen("unhealthy"), DeviceWish(assume_free=True), False),
        (seen("unhealthy"), DeviceWish(skip_health=True), True),
        (seen("unhealthy", processes=1), DeviceWish(skip_health=True), False),
        (None, DeviceWish(), False),
        (None, DeviceWish(assume_free=True), True),
    ],
)
def test_a_device_is_given_only_when_it_is_seen_to_be_free(found: Seen | None, wish: DeviceWish, usable: bool) -> None:
    assert choose.judge(found, wish).usable is usable


ON_HOST = "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
IN_CONTAINER = "73 48 0:40 / / rw - overlay overlay rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "shared"),
    [
        (ON_HOST, True),
        (ON_HOST + "30 27 8:1 / /tmp rw - ext4 /dev/sda1 rw\n", True),
        (ON_HOST + "30 27 0:5 / /tmp rw - tmpfs tmpfs rw\n", False),
        (ON_HOST + "30 27 254:0 /tmp/systemd-private-1/tmp /tmp rw - ext4 /dev/vda rw\n", False),
        (IN_CONTAINER, False),
        (IN_CONTAINER + "80 73 254:0 /tmp/vaws-leases /tmp/vaws-leases rw - ext4 /dev/vda rw\n", True),
        (IN_CONTAINER + "80 73 8:1 /vaws-leases /tmp/vaws-leases rw - ext4 /dev/sda1 rw\n", True),
        (IN_CONTAINER + "80 73 254:0 /var/lib/docker/volumes/x/_data /tmp/vaws-leases rw - ext4 /dev/vda rw\n", False),
        (IN_CONTAINER + "80 73 254:0 /tmp /tmp rw - ext4 /dev/vda rw\n", True),
        (IN_CONTAINER + "80 73 254:0 /tmp/vaws-leases-2 /tmp/vaws-leases-2 rw - ext4 /dev/vda rw\n", False),
        ("not a table", False),
    ],
)
def test_a_lease_directory_is_shared_only_when_it_is_the_hosts_own(mountinfo: str, shared: bool) -> None:
    assert scope.is_shared(LEASED, scope.mount_of(LEASED, mountinfo))[0] is shared


def test_blanks_in_mount_points_are_read() -> None:
    found = scope.mount_of("/a b/c", ON_HOST + r"30 27 8:1 /x\134y /a\040b rw - ext4 /dev/sda1 rw" + "\n")
    assert found == Mount("/a b", "/x\\y", "ext4")


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("first", [True, False, None])
def test_only_the_machines_own_network_proves_the_host_scope(first: bool | None, shared: bool) -> None:
    found = scope.judge(first, (shared, "so it is"))
    assert found.scope == ("host" if first else "container")
    assert "so it is" in found.why


@pytest.mark.parametrize(
    "wrong",
    [
        {"devices": {"ids": ["0"], "count": 1}},
        {"devices": {}},
        {"devices": {"ids": ["0", "0"]}},
        {"devices": {"ids": ["x"]}},
        {"devices": {"ids": []}},
        {"devices": {"count": 0}},
        {"devices": {"count": True}},
        {"devices": {"same_as_reservation": True}},
        {"devices": {"count": 1}, "reservation": "r"},
        {"hold": {}, "reservation": "r"},
        {"hold": True},
        {"ports": [0]},
        {"ports": [80, 80]},
        {"port_count": 1000},
        {"trees": [{"path": ""}]},
        {"trees": [{"path": "/x", "mode": "write"}]},
        {"trees": "x"},
        {"lease_dir": "relative"},
    ],
)
def test_impossible_needs_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Refusal) as caught:
        parse_needs(wrong)
    assert caught.value.code == "bad_params"
