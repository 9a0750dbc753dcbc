"""One holder at a time for a source tree on an endpoint."""

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from vaws_mcp.core.failures import Blocked
from vaws_mcp.endpoint.models import EndpointConfig


@contextmanager
def tree_held(state_dir: Path, config: EndpointConfig, repo: str, holder: str) -> Generator[None]:
    """Hold a tree while a run checks out commits in it and launches from it. The lock dies with the process.

    It covers the runs of one state directory; that the tree stood still is checked after each launch besides.

    Raises: Blocked ``tree_busy`` that names the holder.
    """
    place = f"{config.host}|{config.port}|{config.container}|{repo}"
    path = state_dir / "locks" / f"tree-{hashlib.sha256(place.encode()).hexdigest()[:16]}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    note = path.with_suffix(".holder")
    try:
        with FileLock(path, timeout=0):
            note.write_text(holder, "utf-8")
            yield
    except Timeout:
        who = note.read_text("utf-8") if note.exists() else "another run"
        raise Blocked(
            "tree_busy",
            f"{repo} on {config.address} is in use by {who}, which checks out commits in it",
            layer="local",
            hint=f"Wait for it (run_wait with run_id={who}) or end it (run_cancel), then repeat this call.",
            retry_safe=True,
            phase="resolve",
        ) from None
