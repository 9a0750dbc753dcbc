"""How the demonstration fails."""

from typing import Any


class DemoFailed(Exception):  # noqa: N818 - named like the other failures
    """The demonstration could not go on; ``answer`` is the result that stopped it."""

    def __init__(self, what: str, answer: dict[str, Any]) -> None:
        error = answer.get("error") or {}
        super().__init__(f"{what}: {error.get('message') or answer.get('summary') or answer}")
        self.answer = answer
        self.hint = error.get("hint")
