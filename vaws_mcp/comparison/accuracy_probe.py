"""One completion without chance after each launch: does the state still say the same?"""

import hashlib
from typing import Any

import orjson

from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.target import Target, http

PROMPT = "The three states of matter that people meet every day are"
PROBE_S = 300.0


async def ask(endpoint: Endpoint, target: Target, prompt: str, max_tokens: int) -> dict[str, Any]:
    """Ask for one completion at temperature 0.

    Returns: {text_sha256, text (its first line, shortened), finish_reason, usage}.
    Raises: Failure ``accuracy_probe_failed``.
    """
    body = {
        "model": target.served_model_name,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "seed": 0,
    }
    answer = await http(endpoint, target, "/v1/completions", orjson.dumps(body), PROBE_S)
    try:
        found = orjson.loads(answer["body"])
        choice = found["choices"][0]
        text = str(choice["text"])
    except (ValueError, KeyError, IndexError, TypeError):
        said = one_line(answer["body"].decode("utf-8", "replace"), 300)
        raise Failure(
            "accuracy_probe_failed",
            f"the service answers the accuracy probe with {answer['status'] or answer['error']}: {said}",
            layer="remote_workload",
            hint="serve_logs shows what the service did.",
            phase="accuracy_probe",
        ) from None
    return {
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "text": one_line(text, 120),
        "finish_reason": choice.get("finish_reason"),
        "usage": found.get("usage"),
    }
