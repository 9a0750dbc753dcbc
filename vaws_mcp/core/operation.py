"""Operations: one typed async function is the MCP tool, the command and the Python call."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from vaws_mcp.core.context import Context, Effect
from vaws_mcp.core.models import Request, Result

Body = Callable[[Any, Context], Awaitable[Result]]


@dataclass(frozen=True)
class Operation:
    """An operation and the data about it that front doors, audit and documentation derive everything else from.

    ``run_kind`` is set for work that can take long: such an operation is carried out by a process of its own and is
    recorded below that folder of the task. ``positionals`` name request fields that the command line takes without a
    flag; a last one that ends in ``...`` takes everything after ``--``. ``check`` raises Refused for a request that can
    be seen to be wrong before anything is contacted or recorded; ``check_with`` is the same for one that needs to know
    where state lies. ``at_once`` tells which requests of such long work are
    answered in the calling process all the same, because they only look.
    """

    name: str
    title: str
    body: Body
    request: type[Request]
    result: type[Result]
    effect: Effect
    idempotent: bool = False
    timeout_s: float | None = 60.0
    run_kind: str | None = None
    command: str = ""
    positionals: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    check: Callable[[Any], object] | None = None
    check_with: Callable[[Any, Context], object] | None = None
    at_once: Callable[[Any], bool] | None = None

    @property
    def description(self) -> str:
        """The docstring of the function, which is what a model reads before it calls the tool."""
        return inspect.getdoc(self.body) or ""

    async def __call__(self, request: Any, ctx: Context) -> Result:
        """Carry the operation out in this process.

        Raises: Failure.
        """
        return await self.body(request, ctx)


def operation(name: str, *, title: str, effect: Effect, **data: Any) -> Callable[[Body], Operation]:
    """Attach operation data to ``async def f(request: RequestModel, ctx: Context) -> ResultModel``.

    The command line's name is the operation's with dashes and without ``remote_``.
    """

    def attach(body: Body) -> Operation:
        signature = inspect.signature(body, eval_str=True)
        request = next(iter(signature.parameters.values())).annotation
        result = signature.return_annotation
        command = name.removeprefix("remote_").replace("_", "-")
        return Operation(name, title, body, request, result, effect, command=command, **data)

    return attach
