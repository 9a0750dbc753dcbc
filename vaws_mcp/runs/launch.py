"""Starting the process of a run."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio.to_thread
import orjson

from vaws_mcp.core.redact import redact
from vaws_mcp.runs.records import RunDir, RunRecord
from vaws_mcp.store.ids import new_id
from vaws_mcp.taskstore.tasks import Task, timestamp


def create_run(task: Task, kind: str, operation: str, request: dict[str, Any]) -> RunDir:
    """Make the directory and record of a run. Secrets in the request are masked on disk."""
    run = RunDir(task.directory / kind / new_id("run"))
    run.path.mkdir(parents=True)
    run.save(
        RunRecord(
            run_id=run.run_id,
            operation=operation,
            task_id=task.task_id,
            request=redact(request),
            created_at=timestamp(),
        )
    )
    return run


async def launch(run: RunDir, state_dir: Path, operation: str, request: dict[str, Any]) -> None:
    """Start the run's process, which holds the run's lock from its first moment.

    The request goes over standard input, so that secrets are in no file and no argument list.
    """
    await anyio.to_thread.run_sync(_launch, run, state_dir, operation, request)


def _launch(run: RunDir, state_dir: Path, operation: str, request: dict[str, Any]) -> None:
    lock = run.hold_lock()
    try:
        with run.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "vaws_mcp", "run-exec", str(run.path), "--lock-handle", str(lock)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=str(Path.cwd()),
                env={**os.environ, "VAWS_STATE_DIR": str(state_dir)},
                start_new_session=True,
                pass_fds=(lock,),
            )
    finally:
        os.close(lock)
    with process.stdin or open(os.devnull, "wb") as pipe:  # noqa: PTH123 - typing: stdin is a pipe here
        pipe.write(orjson.dumps({"operation": operation, "request": request}))
    # Reaps the process when it ends before we do; it does not keep us alive.
    threading.Thread(target=process.wait, daemon=True, name=f"reap {run.run_id}").start()
