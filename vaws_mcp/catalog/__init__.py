"""The explicit list of all operations. Importing it has no side effect."""

from vaws_mcp.bench.engine_operations import bench_latency, bench_throughput
from vaws_mcp.bench.nightly_operations import nightly_show
from vaws_mcp.bench.operations import bench_run
from vaws_mcp.bench.read_operations import bench_read
from vaws_mcp.comparison.bisect_operations import bench_bisect
from vaws_mcp.comparison.history_operations import bench_history
from vaws_mcp.comparison.operations import bench_compare
from vaws_mcp.comparison.verdict_operations import bench_verdict
from vaws_mcp.coordinator.control import vaws_execution
from vaws_mcp.coordinator.hold import npu_hold
from vaws_mcp.coordinator.operations import task_finish
from vaws_mcp.coordinator.run import vaws_run
from vaws_mcp.coordinator.stale import stale_cleanup
from vaws_mcp.core.operation import Operation
from vaws_mcp.npu.machines.operations import machine_add, machine_list, machine_remove, machine_verify
from vaws_mcp.npu.operations import npu_probe
from vaws_mcp.presets.operations import preset_list, preset_show
from vaws_mcp.presets.runtime.operations import runtime_check, runtime_prepare
from vaws_mcp.runs.operations import run_cancel, run_list, run_status, run_wait
from vaws_mcp.serving.explain import explain_failure
from vaws_mcp.serving.operations import serve_logs, serve_status, serve_stop
from vaws_mcp.serving.start import serve_start
from vaws_mcp.source.operations import code_sync
from vaws_mcp.taskstore.operations import task_create, task_list, task_show
from vaws_mcp.workspace.artifacts.operations import artifact_manifest, artifact_pull, artifact_push
from vaws_mcp.workspace.edit.operations import remote_apply_patch, remote_edit, remote_multi_edit
from vaws_mcp.workspace.facts.operations import context_snapshot, remote_probe
from vaws_mcp.workspace.files.operations import remote_read, remote_write
from vaws_mcp.workspace.forward.operations import remote_forward
from vaws_mcp.workspace.jobs.operations import job_list, job_status, job_stdin, job_stop, job_tail
from vaws_mcp.workspace.search.operations import remote_glob, remote_grep, remote_ls
from vaws_mcp.workspace.shell.operations import remote_bash

OPERATIONS: tuple[Operation, ...] = (
    task_create,
    task_show,
    task_list,
    task_finish,
    vaws_run,
    vaws_execution,
    npu_hold,
    stale_cleanup,
    run_status,
    run_wait,
    run_list,
    run_cancel,
    remote_bash,
    job_status,
    job_tail,
    job_stdin,
    job_stop,
    job_list,
    remote_read,
    remote_write,
    remote_edit,
    remote_multi_edit,
    remote_apply_patch,
    remote_ls,
    remote_glob,
    remote_grep,
    artifact_manifest,
    artifact_push,
    artifact_pull,
    remote_probe,
    context_snapshot,
    npu_probe,
    machine_add,
    machine_list,
    machine_verify,
    machine_remove,
    runtime_check,
    runtime_prepare,
    remote_forward,
    code_sync,
    serve_start,
    serve_status,
    serve_stop,
    serve_logs,
    explain_failure,
    preset_list,
    preset_show,
    nightly_show,
    bench_run,
    bench_compare,
    bench_verdict,
    bench_history,
    bench_bisect,
    bench_latency,
    bench_throughput,
    bench_read,
)

BY_NAME: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}
BY_COMMAND: dict[str, Operation] = {operation.command: operation for operation in OPERATIONS}
