"""Adding, checking, listing and removing machines with the command line, on good places and on broken ones."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from flow_world import Cli, Json, Spoken, World

Add = Callable[..., Spoken]


@pytest.fixture
def own(tmp_path: Path) -> Cli:
    """A state directory of this test alone, which knows no machine and no host key."""
    return Cli(tmp_path / ".vaws-local")


@pytest.fixture
def add(world: World, own: Cli) -> Add:
    """Add the simulated container as a machine; ``more`` are further options, one value each."""

    def call(name: str, *words: str, **more: str) -> Spoken:
        facts = world.facts
        options = {"user": facts["user"], "port": str(facts["port"]), "identity_file": facts["identity_file"], **more}
        flat = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
        return own("machine-add", name, facts["host"], *flat, *words)

    return call


def checks(spoken: Spoken) -> dict[str, Json]:
    return {check["check"]: check for check in spoken.answer["checks"]}


def machines(own: Cli) -> Json:
    path = own.state_dir / "endpoints.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stranger_key(folder: Path) -> Path:
    path = folder / "stranger"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(argv, check=True, capture_output=True, timeout=20, stdin=subprocess.DEVNULL)
    return path


def test_a_machine_is_added_checked_listed_used_and_removed(world: World, own: Cli, add: Add) -> None:
    added = add("box")
    assert (added.code, added.answer["status"], added.answer["saved"]) == (0, "ready", True)
    assert (added.answer["pinned"], added.answer["host_key"]) == (True, world.facts["host_key_fingerprint"])
    assert any(world.facts["host_key_fingerprint"] in warning for warning in added.answer["warnings"])
    assert tomllib.loads(added.answer["entry"]) == machines(own)
    assert "accept_new" not in machines(own)["box"]
    found = checks(added)
    assert found["npu"]["state"] == "ok"
    assert found["npu"]["facts"]["devices"] == 8
    assert found["lease_scope"]["facts"]["scope"] in ("host", "container")

    verified = own("machine-verify", "box")
    assert (verified.code, verified.answer["status"]) == (0, "ready")
    assert checks(verified)["host_key"]["message"].endswith("known")
    assert own("bash", "--endpoint", "box", "--", "echo hello").code == 0

    task = own("task-create", "work", "--endpoint", "box")
    listed = own("machine-list")
    box = next(machine for machine in listed.answer["machines"] if machine["machine"] == "box")
    assert box["used_by"] == [task.answer["task_id"]]
    refused = own("machine-remove", "box")
    assert (refused.code, refused.answer["error"]["code"]) == (3, "machine_in_use")
    assert task.answer["task_id"] in refused.answer["error"]["message"]
    assert "box" in machines(own)

    assert own("task-finish", "--context-file", task.answer["context_file"]).code == 0
    removed = own("machine-remove", "box")
    assert removed.code == 0
    assert tomllib.loads(removed.answer["entry"])["box"]["host"] == world.facts["host"]
    assert machines(own) == {}
    again = own("machine-remove", "box")
    assert (again.code, again.answer["error"]["code"]) == (2, "machine_unknown")


def test_what_people_wrote_stays_and_an_entry_is_replaced_only_when_asked(own: Cli, add: Add) -> None:
    own.state_dir.mkdir()
    path = own.state_dir / "endpoints.toml"
    path.write_text('# our machines\n[old]  # the loud one\nhost = "old.example"\n', "utf-8")
    assert add("box").code == 0
    other = add("box", workdir="/tmp")
    assert (other.code, other.answer["error"]["code"]) == (2, "machine_exists")
    assert "workdir" not in machines(own)["box"]
    assert add("box", "--replace", workdir="/tmp").code == 0
    assert machines(own)["box"]["workdir"] == "/tmp"
    assert own("machine-remove", "box").code == 0
    assert "# our machines\n[old]  # the loud one\n" in path.read_text("utf-8")


def assert_broken(spoken: Spoken, status: str, code: int, check: str, error: str) -> None:
    """Check what the answer says is wrong, what to do, and that what stands behind it was skipped."""
    assert (spoken.code, spoken.answer["status"]) == (code, status), spoken.answer
    assert spoken.answer["error"]["code"] == error
    assert spoken.answer["error"]["hint"]
    found = checks(spoken)
    names = list(found)
    assert (found[check]["state"], found[check]["status"]) == ("failed", status)
    assert found[check]["next"] == spoken.answer["error"]["hint"]
    later = [found[name] for name in names[names.index(check) + 1 :]]
    assert all(one["state"] == "skipped" and check in one["message"] for one in later if one["check"] != "host_key")


def test_a_closed_port_is_blocked_and_nothing_is_saved(own: Cli, add: Add) -> None:
    spoken = add("box", port=str(closed_port()))
    assert_broken(spoken, "blocked", 3, "reachability", "port_closed")
    assert spoken.answer["saved"] is False
    assert machines(own) == {}


def test_a_wrong_key_needs_input_and_nothing_is_saved(own: Cli, add: Add, tmp_path: Path) -> None:
    spoken = add("box", identity_file=str(stranger_key(tmp_path)))
    assert_broken(spoken, "needs_input", 3, "reachability", "auth_failed")
    assert machines(own) == {}


def test_a_changed_host_key_is_blocked_with_both_fingerprints(world: World, own: Cli, add: Add, tmp_path: Path) -> None:
    assert add("box").code == 0
    public = stranger_key(tmp_path).with_suffix(".pub").read_text("utf-8")
    pins = own.state_dir / "known_hosts"
    pins.write_text(f"[{world.facts['host']}]:{world.facts['port']} {public}", "utf-8")
    before = pins.read_bytes()
    for spoken in (own("machine-verify", "box"), add("box", "--replace")):
        assert_broken(spoken, "blocked", 3, "host_key", "host_key_changed")
        assert world.facts["host_key_fingerprint"] in spoken.answer["error"]["message"]
        assert spoken.answer["error"]["message"].count("SHA256:") == 2
    assert pins.read_bytes() == before


def test_an_unknown_host_key_needs_input_when_a_machine_is_only_checked(own: Cli, add: Add) -> None:
    assert add("box").code == 0
    (own.state_dir / "known_hosts").unlink()
    assert_broken(own("machine-verify", "box"), "needs_input", 3, "host_key", "host_key_unknown")
    assert not (own.state_dir / "known_hosts").exists()


def test_a_missing_container_needs_repair_and_the_entry_is_kept(own: Cli, add: Add) -> None:
    spoken = add("box", container="absent")
    assert_broken(spoken, "needs_repair", 1, "container", "container_unusable")
    assert spoken.answer["saved"] is True
    assert machines(own)["box"]["container"] == "absent"
    assert_broken(own("machine-verify", "box"), "needs_repair", 1, "container", "container_unusable")


def test_a_machine_without_python_needs_repair(own: Cli, add: Add) -> None:
    spoken = add("box", python="/nowhere/python3")
    assert_broken(spoken, "needs_repair", 1, "python", "python_missing")
    assert checks(spoken)["reachability"]["state"] == "ok"


def test_a_read_only_machine_can_be_added_and_checked(own: Cli, add: Add) -> None:
    added = add("box", "--read-only")
    assert (added.code, machines(own)["box"]["read_only"]) == (0, True)
    refused = own("stale-cleanup", "--endpoint", "box", "--apply")
    assert (refused.code, refused.answer["error"]["code"]) == (3, "read_only")


def test_this_machine_is_ready_without_devices_and_says_so(own: Cli) -> None:
    spoken = own("machine-verify", "local")
    assert (spoken.code, spoken.answer["status"]) == (0, "ready")
    found = checks(spoken)
    assert found["python"]["message"] == f"Python {sys.version.split()[0]}" or found["python"]["state"] == "ok"
    assert found["npu"]["state"] in ("absent", "ok")


def test_what_cannot_be_a_machine_is_refused(own: Cli) -> None:
    spoken = own("machine-add", "box", "root@host:22", "--port", "23")
    assert (spoken.code, spoken.answer["error"]["code"]) == (2, "machine_malformed")
    assert machines(own) == {}


def test_a_broken_file_is_left_as_it_is(own: Cli, add: Add) -> None:
    own.state_dir.mkdir()
    path = own.state_dir / "endpoints.toml"
    path.write_text("[box\n", "utf-8")
    for spoken in (add("box"), own("machine-remove", "box")):
        assert spoken.answer["error"]["code"] == "endpoints_file_invalid"
    assert path.read_text("utf-8") == "[box\n"
