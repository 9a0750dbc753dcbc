"""Which running container a name means. Asked before anything runs, so that nothing falls back to the host."""

import subprocess

import anyio

from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.failures import container_unusable
from vaws_mcp.endpoint.models import EndpointConfig

INSPECT_TIMEOUT_S = 20.0


def inspect_argv(runtime: str, name: str) -> list[str]:
    """Return the command that prints full id and state of a container; no name is taken for an option."""
    return [runtime, "inspect", "--type", "container", "--format", "{{.Id}} {{.State.Running}}", "--", name]


def running_id(name: str, where: str, exit_code: int | None, output: str, complaint: str) -> str:
    """Return the full id from what the command of ``inspect_argv`` printed.

    Raises: Failure ``container_unusable`` when the container is missing or stopped.
    """
    words = output.split()
    if exit_code != 0 or len(words) != 2:
        raise container_unusable(name, where, one_line(complaint or output) or "no such container")
    if words[1] != "true":
        raise container_unusable(name, where, "it is not running")
    return words[0]


async def local_id(config: EndpointConfig, name: str) -> str:
    """Return the full id of a running container on this machine.

    Raises: Failure ``container_unusable``, also when the program that enters containers is missing.
    """
    try:
        with anyio.fail_after(INSPECT_TIMEOUT_S):
            done = await anyio.run_process(
                inspect_argv(config.runtime, name), check=False, stdin=subprocess.DEVNULL, start_new_session=True
            )
    except TimeoutError:
        why = f"{config.runtime} did not answer within {INSPECT_TIMEOUT_S:.0f} s"
        raise container_unusable(name, config.address, why) from None
    except OSError as error:
        why = f"{config.runtime} cannot be run: {one_line(error.strerror or str(error))}"
        raise container_unusable(name, config.address, why) from None
    output, complaint = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
    return running_id(name, config.address, done.returncode, output, complaint)
