"""remote_ls, remote_glob, remote_grep."""

from typing import Any, TypeVar

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.search.models import (
    FileCount,
    FileLines,
    GlobRequest,
    GlobResult,
    GrepRequest,
    GrepResult,
    LsEntry,
    LsRequest,
    LsResult,
    SearchRequest,
    TreeResult,
)

Tree = TypeVar("Tree", bound=TreeResult)
_PATH_ALIASES = (("directory", "path"), ("dir", "path"), ("dir_path", "path"))
_GREP_ALIASES = (
    ("-i", "ignore_case"),
    ("case_insensitive", "ignore_case"),
    ("-n", "line_numbers"),
    ("-A", "after"),
    ("-B", "before"),
    ("-C", "context"),
    ("after_context", "after"),
    ("before_context", "before"),
    ("-F", "fixed_strings"),
    ("include", "glob"),
    ("file_pattern", "glob"),
    ("query", "pattern"),
    ("regex", "pattern"),
    ("limit", "head_limit"),
)


async def _search(endpoint: Endpoint, method: str, request: SearchRequest, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the worker, with what all searches have in common."""
    common = {"path": request.path, "escaped": request.escaped, "cwd": endpoint.config.workdir}
    answer = await endpoint.call(
        method,
        {**common, **params, **policy_params(endpoint.config)},
        deadline_s=request.timeout_ms / 1000,
    )
    return answer.result


@operation(
    "remote_ls",
    title="List a directory",
    effect="read",
    idempotent=True,
    positionals=("path",),
    aliases=(*_PATH_ALIASES, ("file_path", "path"), ("hidden", "all"), ("show_hidden", "all"), ("-a", "all")),
)
async def remote_ls(request: LsRequest, ctx: Context) -> LsResult:
    """List the entries of a directory on the endpoint, sorted by name, with kind, size, time, mode and link target."""
    endpoint = await reach(ctx, request)
    params = {"all": request.all, "limit": request.limit, "offset": request.offset}
    found = await _search(endpoint, "ls", request, params)
    result = LsResult(
        path=found["path"],
        entries=[_entry(entry) for entry in found["entries"]],
        total=found["total"],
        hidden=found["hidden"],
        next_offset=found["next_offset"],
        escaped=found["escaped"],
        summary=f"{len(found['entries'])} of {found['total']} entries of {found['path']}",
    )
    if result.next_offset is not None:
        result.hint = f"Call remote_ls with offset={result.next_offset} for more."
    return result


def _entry(found: dict[str, Any]) -> LsEntry:
    return LsEntry(
        name=found["name"],
        kind=found["kind"],
        size=found["size"],
        mtime=found["mtime_ns"] / 1e9,
        mode=f"{found['mode']:04o}",
        target=found["target"],
    )


@operation(
    "remote_glob",
    title="Find files by name",
    effect="read",
    idempotent=True,
    timeout_s=None,
    positionals=("pattern", "path"),
    aliases=(*_PATH_ALIASES, ("glob", "pattern"), ("respect_git_ignore", "respect_gitignore"), ("head_limit", "limit")),
)
async def remote_glob(request: GlobRequest, ctx: Context) -> GlobResult:
    """Find files on the endpoint whose path matches a pattern, newest first.

    `*.py` matches in `path` itself only, `**/*.py` in all directories below it too. Links are not followed.
    """
    endpoint = await reach(ctx, request)
    params = request.model_dump(include={"pattern", "limit", "offset", "sort", "respect_gitignore", "hidden"})
    found = await _search(endpoint, "glob", request, params)
    result = GlobResult.model_validate({**found, "summary": f"{len(found['files'])} of {found['total']} files"})
    return _unfinished(result, "remote_glob")


def _unfinished(result: Tree, name: str) -> Tree:
    """Say what to do when time ran out or when there are further pages."""
    if result.timed_out:
        result.status, result.outcome = "timeout", "timeout"
        result.summary += ", until time ran out"
        result.hint = "Look in a smaller directory, narrow the pattern, or raise timeout_ms."
    elif result.next_offset is not None:
        result.hint = f"Call {name} with offset={result.next_offset} for more."
    return result


@operation(
    "remote_grep",
    title="Search in files",
    effect="read",
    idempotent=True,
    timeout_s=None,
    positionals=("pattern", "path"),
    aliases=(*_PATH_ALIASES, *_GREP_ALIASES, ("file_path", "path"), ("respect_git_ignore", "respect_gitignore")),
)
async def remote_grep(request: GrepRequest, ctx: Context) -> GrepResult:
    """Search files on the endpoint for a regular expression.

    Answers with the paths of matching files, newest first, unless `output_mode` says otherwise. Binary files are left
    out, and so is what .gitignore names; a file given as `path` is searched in any case. Links are not followed.
    """
    endpoint = await reach(ctx, request)
    params = request.model_dump(mode="json", exclude={"line_numbers", *SearchRequest.model_fields}, exclude_none=True)
    found = await _search(endpoint, "grep", request, params)
    result = GrepResult(
        path=found["path"],
        files=found["files"] if request.output_mode == "files_with_matches" else [],
        matches=[_lines(item, numbers=request.line_numbers) for item in found.get("matches", ())],
        counts=[FileCount(file=file, count=count) for file, count in _counted(found)],
        total_files=found["total_files"],
        total_matches=found.get("total_matches"),
        next_offset=found["next_offset"],
        complete=found["complete"],
        timed_out=found["timed_out"],
        cut_lines=found.get("cut_lines", 0),
        replaced_bytes=found.get("replaced_bytes", False),
        unreadable=found["unreadable"],
        problems=found["problems"],
        escaped=found["escaped"],
        engine=found["engine"],
        summary=_summary(request, found),
    )
    return _unfinished(result, "remote_grep")


def _counted(found: dict[str, Any]) -> list[tuple[str, int]]:
    return list(zip(found["files"], found["counts"], strict=True)) if "counts" in found else []


def _lines(found: dict[str, Any], *, numbers: bool) -> FileLines:
    lines: list[str] = found["lines"]
    if not numbers:
        lines = [line if line == "--" else line.lstrip("0123456789")[1:] for line in lines]
    return FileLines(file=found["file"], lines=lines)


def _summary(request: GrepRequest, found: dict[str, Any]) -> str:
    files = found["total_files"]
    if not files:
        return "nothing matches"
    where = f"{files} file{'' if files == 1 else 's'}"
    if request.output_mode == "content":
        return f"{found['shown_matches']} matching lines shown; {where} match"
    if request.output_mode == "count":
        return f"{found['total_matches']} matching lines in {where}"
    return f"{len(found['files'])} of {where} with matches"
