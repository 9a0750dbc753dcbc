"""Identifiers of tasks, executions, jobs and runs."""

import re
import secrets
from datetime import UTC, datetime

_TASK = re.compile(r"[a-z0-9][a-z0-9-]*-\d{8}-[0-9a-f]{6}")
_OTHER = re.compile(r"(?:execution|job|run)-\d{8}T\d{6}-[0-9a-f]{8}")
SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


def new_task_id(slug: str) -> str:
    """Return ``<slug>-<yyyymmdd>-<6 hex>``."""
    return f"{slug}-{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(3)}"


def new_id(kind: str) -> str:
    """Return ``<kind>-<UTC yyyymmddThhmmss>-<8 hex>`` for kind execution, job or run."""
    return f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def is_task_id(text: str) -> bool:
    """Tell whether the text has the form of a task id (so that it is safe as a directory name)."""
    return _TASK.fullmatch(text) is not None


def is_id(text: str) -> bool:
    """Tell whether the text has the form of an execution, job or run id."""
    return _OTHER.fullmatch(text) is not None
