"""A machine with simulated devices: its npu-smi, its lease directory, and commands that use a device."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker_client import PROJECT, Client

from vaws_mcp.sim.processes import MARKER_VARIABLE, ROOT_VARIABLE
from vaws_mcp.sim.settings import Settings, write_settings

Answer = dict[str, Any]
WAIT_S = 20.0
NPU_SMI = f"""#!{sys.executable} -IS
import sys
sys.path.insert(0, {str(PROJECT)!r})
from vaws_mcp.sim.npu_smi import main
sys.exit(main())
"""
FILL = f"""
import os, sys, time
sys.path.insert(0, {str(PROJECT)!r})
from vaws_mcp.sim.devices import hold
for logic in os.environ["ASCEND_RT_VISIBLE_DEVICES"].split(","):
    hold(os.environ["{ROOT_VARIABLE}"], int(logic), 30000)
print("full", os.environ["ASCEND_RT_VISIBLE_DEVICES"], flush=True)
time.sleep(100)
"""
FAST_STOP: dict[str, Any] = {"int_s": 0.2, "term_s": 0.2, "kill_s": 5}
# What takes a device and lives on when its supervisor is killed.
FILLS = [sys.executable, "-ISc", FILL]
SLEEPS = ["sleep", "100"]


class World:
    """One machine. Its boot id is its own, so that its leases meet no other test's."""

    def __init__(self, folder: Path, home: Path, devices: int = 4, layout: str = "a2") -> None:
        self.root = folder / "machine"
        self.lease_dir = self.root / "leases"
        self.home = home
        for path in (self.root / "bin", self.root / "devices"):
            path.mkdir(parents=True)
        write_settings(Settings(str(self.root), devices, layout, 0, 0, 0, 0, 0, 1, 1, 1))
        self.npu_smi = self.root / "bin" / "npu-smi"
        self.npu_smi_works()
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            ROOT_VARIABLE: str(self.root),
            "VAWS_SIM": "1",
            MARKER_VARIABLE: uuid.uuid4().hex,
            "VAWS_SIM_BOOT_ID": str(uuid.uuid4()),
            "VAWS_LEASE_DIR": str(self.lease_dir),
        }

    def npu_smi_works(self) -> None:
        self._program(NPU_SMI)

    def npu_smi_says(self, text: str, status: int) -> None:
        self._program(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {status}\n")

    def npu_smi_changed(self, old: str, new: str) -> None:
        """Let npu-smi print something else in one place."""
        self._program(NPU_SMI.replace("from vaws_mcp.sim.npu_smi", CHANGED.format(old=old, new=new)))

    def _program(self, text: str) -> None:
        draft = self.npu_smi.with_suffix(".new")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(self.npu_smi)


CHANGED = """class Out:
    real = sys.stdout
    def write(self, text): return Out.real.write(text.replace({old!r}, {new!r}))
    def flush(self): Out.real.flush()
sys.stdout = Out()
from vaws_mcp.sim.npu_smi"""


class Caller:
    """Calls of the execution methods through a real worker."""

    def __init__(self, worker: Client, world: World) -> None:
        self.worker = worker
        self.world = world

    def submit(self, name: str, argv: list[str] | None = None, **fields: Any) -> Answer:
        spec = {"schema": 1, "execution_id": name, "task_id": f"t-{name}", "owner": f"{name}@lap", "stop": FAST_STOP}
        argv = [] if "hold" in fields else argv or SLEEPS
        return self.call("execution.submit", spec={**spec, "argv": argv, **fields})["status"]

    def call(self, method: str, **params: Any) -> Answer:
        return self.worker.call(method, params).result

    def status(self, name: str) -> Answer:
        return self.call("execution.status", execution_id=name)

    def stop(self, name: str) -> Answer:
        return self.call("execution.stop", execution_id=name, reason="test")

    def wait(self, name: str, until: str) -> Answer:
        found = self.call("execution.wait", execution_id=name, until=until, timeout_s=WAIT_S)
        assert found["reached"], found
        return found

    def output(self, name: str) -> str:
        return self.worker.call("execution.tail", {"execution_id": name}).body.decode()

    def filled(self, name: str, devices: Any, **fields: Any) -> Answer:
        """Run a command that fills its devices and return its status when it has done so."""
        self.submit(name, FILLS, devices=devices, **fields)
        self.wait(name, "running")
        eventually(lambda: "full" in self.output(name))
        return self.status(name)

    def queued(self, name: str, said: Callable[[Answer], bool] = bool) -> Answer:
        """Wait until an execution says in the queue what is expected of it, and return its status."""

        def look() -> bool:
            found = self.status(name)
            assert found["state"] == "queued", found
            return found["queue"] is not None and said(found["queue"])

        eventually(look)
        return self.status(name)

    def receipt(self, name: str) -> Answer:
        return json.loads((self.folder(name) / "receipt.json").read_text())

    def folder(self, name: str) -> Path:
        return self.world.home / ".vaws" / "executions" / name

    def end_all(self) -> None:
        """Stop whatever a test left."""
        if not (self.world.home / ".vaws").exists():
            return
        for entry in self.call("execution.list")["executions"]:
            if entry["state"] != "exited":
                self.stop(entry["execution_id"])
        shutil.rmtree(self.world.home / ".vaws")


def eventually(said: Callable[[], object], within_s: float = WAIT_S) -> None:
    limit = time.monotonic() + within_s
    while not said():
        assert time.monotonic() < limit, "it did not come to that"
        time.sleep(0.02)
