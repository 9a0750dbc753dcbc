"""The explicit list of all operations. Importing it has no side effect."""

from vaws_mcp.bench.operations import bench_run
from vaws_mcp.comparison.operations import bench_compare
from vaws_mcp.coordinator.operations import task_finish
from vaws_mcp.core.operation import Operation
from vaws_mcp.runs.operations import run_cancel, run_list, run_status, run_wait
from vaws_mcp.taskstore.operations import task_create, task_list, task_show
from vaws_mcp.workspace.operations import remote_bash, remote_probe, remote_read, remote_write

OPERATIONS: tuple[Operation, ...] = (
    task_create,
    task_show,
    task_list,
    task_finish,
    run_status,
    run_wait,
    run_list,
    run_cancel,
    remote_bash,
    remote_read,
    remote_write,
    remote_probe,
    bench_run,
    bench_compare,
)

BY_NAME: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}
BY_COMMAND: dict[str, Operation] = {operation.command: operation for operation in OPERATIONS}
