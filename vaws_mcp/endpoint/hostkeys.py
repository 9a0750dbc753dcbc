"""Host keys: the user's known hosts first, ours second; nothing is trusted silently."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaws_mcp.core.failures import Failure, NeedsInput
from vaws_mcp.endpoint.failures import connect_failed
from vaws_mcp.store.records import locked

if TYPE_CHECKING:
    import asyncssh

FILE = "known_hosts"


@dataclass
class HostKeys:
    """What is known about the keys of one host, and what the host presented."""

    where: str
    files: list[Path]
    pins: Path
    accept_new: bool
    known: list["asyncssh.SSHKey"] = field(default_factory=list["asyncssh.SSHKey"])
    presented: "asyncssh.SSHKey | None" = None
    pinned: str | None = None
    revoked: bool = False

    def match(self, host: str, address: str, port: int | None) -> Any:
        """Return the trusted keys of a host as asyncssh wants them (it calls this while connecting)."""
        import asyncssh

        merged: list[list[Any]] = [[] for _ in range(7)]
        for path in [*self.files, self.pins]:
            try:
                hosts = asyncssh.import_known_hosts(path.read_text("utf-8", errors="replace"))
            except (OSError, ValueError):
                continue
            for into, found in zip(merged, hosts.match(host, address, port), strict=True):
                into.extend(found)
        self.known = merged[0]
        self.revoked = bool(merged[2])
        return tuple(merged)

    def judge(self, host: str, port: int, key: "asyncssh.SSHKey") -> bool:
        """Decide about a key that is not known: pin it when the host is new and that was asked for."""
        self.presented = key
        if self.known or self.revoked or not self.accept_new:
            return False
        name = host if port == 22 else f"[{host}]:{port}"
        line = f"{name} {key.export_public_key().decode().strip()}\n"
        with locked(self.pins), self.pins.open("a", encoding="utf-8") as file:
            file.write(line)
        self.pinned = key.get_fingerprint()
        return True

    def refusal(self) -> Failure:
        """Explain why the host was not trusted, with the fingerprints on both sides."""
        shown = self.presented.get_fingerprint() if self.presented else "none"
        if self.revoked:
            return connect_failed(
                self.where,
                "its host key is marked @revoked in known_hosts",
                "Somebody declared this key unsafe: ask whoever runs the host for its new key.",
                code="host_key_revoked",
            )
        if self.known:
            expected = ", ".join(sorted({key.get_fingerprint() for key in self.known}))
            return connect_failed(
                self.where,
                f"its host key has changed: it shows {shown}, known is {expected}",
                "If the host was reinstalled on purpose, remove its old line from known_hosts and connect again. "
                "Else somebody may be in between.",
                code="host_key_changed",
            )
        return NeedsInput(
            "host_key_unknown",
            f"cannot connect to {self.where}: its host key is not known ({shown})",
            layer="transport",
            phase="connect",
            hint="Compare the fingerprint with the host's own, then repeat once with accept_new (--accept-new).",
        )
