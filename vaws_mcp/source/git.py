"""Running git on the endpoint."""

from dataclasses import dataclass

from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.connect import Endpoint

QUIET_ENV = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
FETCH_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class GitAnswer:
    """How a git command ended; ``text`` is its output without the last newline."""

    code: int
    text: str
    complaint: str


async def git(endpoint: Endpoint, repo: str, *args: str, timeout_s: float = 60.0) -> GitAnswer:
    """Run one git command in a tree and return how it ended.

    Raises: Failure ``git_missing`` or ``git_timeout``.
    """
    argv = ["git", "-C", repo, "-c", f"safe.directory={repo}", "-c", "advice.detachedHead=false", *args]
    params = {"argv": argv, "env": QUIET_ENV, "timeout_s": timeout_s, "max_output_bytes": 1 << 20}
    try:
        answer = await endpoint.call("run", params, deadline_s=timeout_s + 30, retry_safe=False)
    except Failure as failure:
        if failure.code == "not_found":
            raise Failure(
                "git_missing", f"there is no git on {endpoint.config.address}", layer="remote_env", hint="Install git."
            ) from None
        raise
    result, body = answer.result, answer.body
    out = result["stdout"]["kept_head"] + result["stdout"]["kept_tail"]
    if result["timed_out"]:
        raise Failure(
            "git_timeout",
            f"git {args[0]} in {repo} took longer than {timeout_s:.0f} s",
            layer="remote_env",
            retry_safe=True,
            hint="Is the remote reachable from the endpoint?",
        )
    text = body[:out].decode("utf-8", "surrogateescape").removesuffix("\n")
    code = result["exit_code"] if result["exit_code"] is not None else 128
    return GitAnswer(code, text, one_line(body[out:].decode("utf-8", "replace"), 400))


async def git_text(endpoint: Endpoint, repo: str, *args: str, timeout_s: float = 60.0) -> str:
    """Run one git command that has to succeed and return its output.

    Raises: Failure ``git_failed`` with git's own words.
    """
    answer = await git(endpoint, repo, *args, timeout_s=timeout_s)
    if answer.code != 0:
        raise Failure(
            "git_failed",
            f"git {args[0]} failed in {repo} on {endpoint.config.address}: {answer.complaint or answer.code}",
            layer="remote_env",
            hint=f"Look at the tree: git -C {repo} status",
            retry_safe=True,
        )
    return answer.text
