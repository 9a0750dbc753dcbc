"""The one error class that operations raise, and its usual forms.

``Failure`` becomes the ``error`` object of a result. Everything a caller needs to decide the next step is data on it:
which layer failed, a stable code, what happened, what to do, and whether a repetition is safe.

::

    Failure              outcome failed
    ├── Refused          bad input; nothing was contacted or started (exit code 2)
    ├── NeedsInput       something must be given first, such as a task (exit code 3)
    ├── Blocked          correct request, but the world does not allow it now (exit code 3)
    ├── TimedOut         a bound was reached
    ├── Cancelled        the caller or ``run_cancel`` ended it (exit code 130)
    └── CleanupFailed    the work may have succeeded; what it started could not be undone (exit code 4)
"""

from typing import Any, ClassVar, Literal

Layer = Literal["caller", "local", "transport", "remote_env", "remote_workload", "device", "unknown"]
Outcome = Literal["success", "needs_input", "blocked", "failed", "timeout", "cancelled"]


class Failure(Exception):  # noqa: N818 - the word of the contract is "failure"; subclasses name the outcome
    """A request that did not succeed, with everything its answer must say.

    ``fields`` are result fields that survive the failure (partial results, paths of logs); ``refs`` name files.
    """

    outcome: ClassVar[Outcome] = "failed"
    status: ClassVar[str] = "failed"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        layer: Layer = "unknown",
        hint: str | None = None,
        retry_safe: bool = False,
        phase: str | None = None,
        fields: dict[str, Any] | None = None,
        refs: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.layer: Layer = layer
        self.hint = hint
        self.retry_safe = retry_safe
        self.phase = phase
        self.fields = fields or {}
        self.refs = refs or {}

    def carrying(self, **fields: Any) -> "Failure":
        """Add result fields that must not be lost (existing ones stay) and return the same failure."""
        self.fields = {**fields, **self.fields}
        return self

    def error(self) -> dict[str, Any]:
        """Return the ``error`` object of the result."""
        return {
            "layer": self.layer,
            "code": self.code,
            "phase": self.phase,
            "message": self.message,
            "hint": self.hint,
            "retry_safe": self.retry_safe,
        }


class Refused(Failure):
    """The request itself is wrong; nothing was contacted or started."""

    status = "refused"

    def __init__(self, code: str, message: str, *, hint: str | None = None, **rest: Any) -> None:
        rest.setdefault("layer", "caller")
        rest.setdefault("retry_safe", True)
        super().__init__(code, message, hint=hint, **rest)


class NeedsInput(Failure):
    """The caller must give or create something first."""

    outcome = "needs_input"
    status = "needs_input"

    def __init__(self, code: str, message: str, *, hint: str | None = None, **rest: Any) -> None:
        rest.setdefault("layer", "caller")
        rest.setdefault("retry_safe", True)
        super().__init__(code, message, hint=hint, **rest)


class Blocked(Failure):
    """The request is right, but a live run, a busy resource or a foreign state forbids it now."""

    outcome = "blocked"
    status = "blocked"


class TimedOut(Failure):
    """A declared bound was reached."""

    outcome = "timeout"
    status = "timeout"


class Cancelled(Failure):
    """The work was ended on request."""

    outcome = "cancelled"
    status = "cancelled"


class CleanupFailed(Failure):
    """Something that was started or changed could not be undone; this outranks success."""

    status = "cleanup_failed"
