"""The objects of answers in the forms of the completions and the chat API."""

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

from vaws_mcp.sim.settings import VLLM_VERSION

FINGERPRINT = f"vllm-{VLLM_VERSION}-sim"


@dataclass(frozen=True)
class Job:
    """One generation: what to answer and how."""

    chat: bool
    model: str
    prompt_tokens: int
    tokens: list[str]
    finish: str
    stream: bool
    usage: bool
    run: int

    def usage_object(self) -> dict[str, int]:
        """Return the token counts of the whole answer."""
        total = self.prompt_tokens + len(self.tokens)
        return {"prompt_tokens": self.prompt_tokens, "total_tokens": total, "completion_tokens": len(self.tokens)}


class Form:
    """The objects of one answer, in the form of the completions or the chat API."""

    def __init__(self, job: Job) -> None:
        self.job = job
        kind = ("chat.completion.chunk" if job.stream else "chat.completion") if job.chat else "text_completion"
        name = f"{'chatcmpl' if job.chat else 'cmpl'}-{uuid.uuid4().hex[:16]}"
        self.base = {"id": name, "object": kind, "created": int(time.time()), "model": job.model}

    def _dump(self, **fields: Any) -> bytes:
        return json.dumps(self.base | fields, separators=(",", ":")).encode()

    def opening(self) -> bytes:
        """The first chunk of a chat, which names the role."""
        delta = {"role": "assistant", "content": ""}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._dump(choices=[choice], prompt_token_ids=None, prompt_text=None)

    def piece(self, text: str, done: int) -> bytes:
        """A chunk with text."""
        last = done == len(self.job.tokens)
        content = {"delta": {"content": text}} if self.job.chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": self.job.finish if last else None}
        if last or not self.job.chat:
            choice["stop_reason"] = None
        return self._dump(choices=[choice | {"token_ids": None}])

    def closing(self) -> bytes:
        """The chunk with the token counts."""
        return self._dump(choices=[], usage=self.job.usage_object(), system_fingerprint=FINGERPRINT)

    def whole(self) -> dict[str, Any]:
        """The answer without streaming."""
        text = "".join(self.job.tokens)
        message = {"role": "assistant", "content": text, "refusal": None, "annotations": None, "audio": None}
        message |= {"function_call": None, "reasoning": None}
        choice: dict[str, Any] = {"index": 0, **({"message": message} if self.job.chat else {"text": text})}
        choice |= {"logprobs": None, "finish_reason": self.job.finish, "stop_reason": None, "token_ids": None}
        usage = {**self.job.usage_object(), "prompt_tokens_details": None, "completion_tokens_details": None}
        rest = {"service_tier": None, "system_fingerprint": FINGERPRINT, "usage": usage, "prompt_logprobs": None}
        return self.base | {"choices": [choice]} | rest | {"kv_transfer_params": None, "metrics": None}
