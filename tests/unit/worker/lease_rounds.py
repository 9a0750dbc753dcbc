"""Requesters that fight for devices and are killed at random, as a program; what they did is logged to be judged.

``python lease_rounds.py FOLDER LEASE_DIR BOOT_ID REQUESTERS ROUNDS SECONDS SEED`` forks the requesters, kills some at
times, starts others in their place, and ends all when there were enough rounds or the time is over.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from vaws_mcp.worker.engine.npu.probe import Seen, Snapshot
from vaws_mcp.worker.facts.npu.models import Device
from vaws_mcp.worker.supervisor import tickets
from vaws_mcp.worker.supervisor.choose import DeviceWish
from vaws_mcp.worker.supervisor.devices import Devices
from vaws_mcp.worker.supervisor.probing import Probing
from vaws_mcp.worker.supervisor.turn import Turn
from vaws_mcp.worker.supervisor.wishes import Needs

DEVICES = 8
KILL_SHARE = 0.5


class Log:
    """Appends events of one requester; the clock is the same for all processes of a machine."""

    def __init__(self, path: Path, who: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self.who = who

    def event(self, name: str, **fields: Any) -> None:
        line = json.dumps({"event": name, "who": self.who, "at": time.monotonic(), **fields}) + "\n"
        os.write(self._fd, line.encode())


class Journal:
    """Takes the notes that a supervisor would write down."""

    def __init__(self, boot_id: str) -> None:
        self.status: dict[str, Any] = {"boot_id": boot_id, "queue": None, "blocked": None, "probe": None}

    def note(self, **changes: Any) -> None:
        self.status.update(changes)

    def watch(self) -> None:
        """Nobody deletes the record of a requester."""


class Waits:
    """Waits without signals."""

    def check(self) -> None:
        """Nobody asks a requester to stop."""

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


class Requester:
    """Asks for devices again and again until it is killed."""

    def __init__(self, log: Log, lease_dir: str, boot_id: str, seed: int) -> None:
        self._log = log
        self._lease_dir = lease_dir
        self._boot_id = boot_id
        self._random = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._request = ""
        self._keys: list[str] = []

    def work(self) -> None:
        taking = tickets.take

        def logged(folder: str, keys: Any, record: Any, pause: Any) -> tickets.Ticket:
            self._keys = sorted(keys)
            self._log.event("ask", request=self._request, keys=self._keys)
            ticket = taking(folder, keys, record, pause)
            self._log.event("ticket", request=self._request)
            return ticket

        tickets.take = logged
        number = 0
        while True:
            number += 1
            self._request = f"{self._log.who}-{number}"
            self._round()

    def _wish(self) -> DeviceWish:
        count = self._random.choice((1, 1, 2, 3))
        if self._random.random() < 0.3:
            return DeviceWish(how_many=count)
        return DeviceWish(ids=self._random.sample(range(DEVICES), count))

    def _round(self) -> None:
        wish = self._wish()
        needs = Needs(wish, [], 0, [], None, None, self._lease_dir, None)
        journal: Any = Journal(self._boot_id)
        waits: Any = Waits()
        devices = Devices(wish, Probing({}, waits.check, self._probe), journal)
        turn = Turn(needs, journal, waits, {"execution_id": self._request, "pid": os.getpid()})
        taken = turn.take(devices)
        trouble = None if taken.place.folder else journal.status["lease_scope_why"]
        logics = [device.logic for device in taken.devices]
        self._log.event("hold", request=self._request, devices=logics, trouble=trouble)
        time.sleep(self._random.random() * 0.004)
        self._log.event("release", request=self._request)
        for lease in taken.held:
            lease.release()

    def _probe(self, _env: dict[str, str], _bound_s: float, _check: Any) -> Snapshot:
        # The last probe of a request is made with its leases in hand and its ticket still in the queue.
        self._log.event("probe", request=self._request)
        seen = [
            Seen(Device(npu=logic, chip=0, logic=logic, bus_id=f"0000:{logic:02X}:00.0"), "free", "It is free.")
            for logic in range(DEVICES)
        ]
        return Snapshot(True, devices=seen, process_table="complete")


def run(folder: Path, lease_dir: str, boot_id: str, requesters: int, rounds: int, seconds: float, seed: int) -> int:
    """Let them fight; returns the number of kills."""
    os.environ["HOME"] = str(folder)
    chance = random.Random(seed)  # noqa: S311 - chance, not secrecy
    name = uuid.uuid4().hex[:8]  # pids of different containers may be the same
    path = folder / f"events-{name}.jsonl"
    log = Log(path, name)
    living: list[int] = []
    limit = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < limit and path.read_text().count('"hold"') < rounds:
        while len(living) < requesters:
            living.append(_started(path, name, lease_dir, boot_id, chance.randrange(1 << 30)))
        time.sleep(chance.random() * 0.05)
        if chance.random() < KILL_SHARE:
            _kill(log, living.pop(chance.randrange(len(living))))
            kills += 1
    for pid in living:
        _kill(log, pid)
    return kills


def _started(path: Path, name: str, lease_dir: str, boot_id: str, seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            Requester(Log(path, f"{name}-{os.getpid()}"), lease_dir, boot_id, seed).work()
        finally:
            os._exit(1)
    return pid


def _kill(log: Log, pid: int) -> None:
    log.event("kill", process=f"{log.who}-{pid}")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    words = sys.argv[1:]
    killed = run(Path(words[0]), words[1], words[2], int(words[3]), int(words[4]), float(words[5]), int(words[6]))
    sys.stdout.write(f"{killed}\n")
