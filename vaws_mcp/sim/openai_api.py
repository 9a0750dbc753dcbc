"""The OpenAI-compatible API of the simulated ``vllm serve``."""

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from vaws_mcp.sim import chance
from vaws_mcp.sim.http_server import Request, Response, Stream, json_response
from vaws_mcp.sim.latency import LatencyModel
from vaws_mcp.sim.metrics import Metrics
from vaws_mcp.sim.openai_forms import Form, Job
from vaws_mcp.sim.settings import VLLM_VERSION
from vaws_mcp.sim.text import accepted_lengths, answer, chat_prompt, count_tokens

GENERATE = ("/v1/completions", "/v1/chat/completions")
MAX_RUNS_KNOWN = 10_000


class ApiError(Exception):
    """A request that is refused, in OpenAI's form."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.response = json_response(
            {"error": {"message": message, "type": kind, "param": param, "code": status}}, status
        )


@dataclass(frozen=True)
class ApiConfig:
    """What the API has to know of the server."""

    served: tuple[str, ...]
    root: str
    max_model_len: int
    max_num_seqs: int
    half_fail: bool


class Api:
    """Answers requests with the latency of the model."""

    def __init__(self, config: ApiConfig, latency: LatencyModel, metrics: Metrics) -> None:
        self.config = config
        self.latency = latency
        self.metrics = metrics
        self.engine_alive = True
        self.created = int(time.time())
        self.generations = 0
        self.runs: dict[str, int] = {}
        self.slots = asyncio.Semaphore(config.max_num_seqs)
        self.routes: dict[tuple[str, str], Callable[[Request], Response]] = {
            ("GET", "/health"): self._health,
            ("GET", "/ping"): self._health,
            ("GET", "/v1/models"): self._models,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/version"): lambda _: json_response({"version": VLLM_VERSION}),
            ("POST", "/tokenize"): self._tokenize,
        }

    async def handle(self, request: Request, stream: Stream) -> Response | None:
        """Answer one request; None means the stream was used."""
        try:
            if request.path in GENERATE and request.method == "POST":
                return await self._generate(request, stream)
            route = self.routes.get((request.method, request.path))
            if route:
                return route(request)
            known = request.path in (*GENERATE, *(path for _, path in self.routes))
            return json_response({"detail": "Method Not Allowed"}, 405) if known else _not_found()
        except ApiError as error:
            return error.response

    def _health(self, request: Request) -> Response:
        del request
        return Response(200 if self.engine_alive else 503)

    def _metrics(self, request: Request) -> Response:
        del request
        return Response(200, self.metrics.render().encode(), "text/plain; version=1.0.0; charset=utf-8")

    def _models(self, request: Request) -> Response:
        del request
        return json_response({"object": "list", "data": [self._model_card(name) for name in self.config.served]})

    def _model_card(self, name: str) -> dict[str, Any]:
        permission = {"id": f"modelperm-{uuid.uuid4().hex[:16]}", "object": "model_permission", "created": self.created}
        permission |= {"allow_create_engine": False, "allow_sampling": True, "allow_logprobs": True}
        permission |= {"allow_search_indices": False, "allow_view": True, "allow_fine_tuning": False}
        permission |= {"organization": "*", "group": None, "is_blocking": False}
        card = {"id": name, "object": "model", "created": self.created, "owned_by": "vllm", "root": self.config.root}
        return card | {"parent": None, "max_model_len": self.config.max_model_len, "permission": [permission]}

    def _tokenize(self, request: Request) -> Response:
        body = _body(request)
        if isinstance(body.get("messages"), list):
            count = chat_prompt(_messages(body))[1]
        else:
            count = _count(body.get("prompt", ""))
        answer_body = {"count": count, "max_model_len": self.config.max_model_len, "tokens": list(range(count))}
        return json_response({**answer_body, "token_strs": None})

    async def _generate(self, request: Request, stream: Stream) -> Response | None:
        if not self.engine_alive:
            raise ApiError(503, "ServiceUnavailableError", "EngineCore encountered an issue.")
        job = self._job(_body(request), request)
        self.generations += 1
        if self.config.half_fail and self.generations % 2 == 0:
            raise ApiError(500, "InternalServerError", "EngineCore encountered an issue while processing the request.")
        self.metrics.waiting += 1
        try:
            await self.slots.acquire()
        finally:
            self.metrics.waiting -= 1
        self.metrics.running += 1
        finish = "abort"
        try:
            response = await self._decode(job, stream)
            finish = job.finish
        finally:
            self.metrics.finished[finish] += 1
            self.metrics.running -= 1
            self.slots.release()
        return response

    def _job(self, body: dict[str, Any], request: Request) -> Job:
        chat = request.path.endswith("/chat/completions")
        if (model := body.get("model", self.config.served[0])) not in self.config.served:
            aliases = ", ".join(self.config.served)
            message = f"The model `{model}` does not exist. Valid aliases: {aliases}."
            raise ApiError(404, "NotFoundError", message, "model")
        if chat:
            prompt, count = chat_prompt(_messages(body))
        else:
            prompt, count = str(body.get("prompt", "")), _count(body.get("prompt", ""))
        limit = self._limit(body, chat, count)
        tokens, finish = answer(prompt, limit, _salt(body), bool(body.get("ignore_eos")))
        options = cast("dict[str, Any]", body.get("stream_options") or {})
        streamed, usage = bool(body.get("stream")), bool(options.get("include_usage"))
        return Job(chat, str(model), count, tokens, finish, streamed, usage, self._run_of(request))

    def _limit(self, body: dict[str, Any], chat: bool, count: int) -> int:
        room = self.config.max_model_len - count
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        limit = asked if isinstance(asked, int) else (max(room, 1) if chat else 16)
        longest = self.config.max_model_len
        if limit > longest:
            message = f"max_tokens={limit} cannot be greater than max_model_len={longest}. Please request fewer "
            message += f"output tokens. (parameter=max_tokens, value={limit})"
            raise ApiError(400, "BadRequestError", message, "max_tokens")
        if limit > room:
            message = f"This model's maximum context length is {longest} tokens. However, you requested {limit} output "
            message += f"tokens and your prompt contains at least {count} input tokens, for a total of at least "
            message += f"{count + limit} tokens. Please reduce the length of the input prompt or the number of "
            raise ApiError(400, "BadRequestError", message + "requested output tokens.", "input_tokens")
        return max(1, limit)

    def _run_of(self, request: Request) -> int:
        """Number the benchmark run by the prefix of its request ids (``bench-1a2b3c4d-7``); 0 for everybody else."""
        prefix, _, number = request.headers.get("x-request-id", "").rpartition("-")
        if not prefix.startswith("bench-") or not number.isdigit():
            return 0
        if len(self.runs) >= MAX_RUNS_KNOWN:
            self.runs.pop(next(iter(self.runs)))
        return self.runs.setdefault(prefix, len(self.runs) + 1)

    async def _decode(self, job: Job, stream: Stream) -> Response | None:
        form = Form(job)
        opening = form.opening() if job.stream and job.chat else None
        loop = asyncio.get_running_loop()
        started = loop.time()
        due = started + self.latency.ttft(job.prompt_tokens)
        drafts = self.metrics.draft_tokens
        source = chance.source(self.latency.settings.seed, "".join(job.tokens[:8]), job.prompt_tokens)
        step = self.latency.step(job.run, drafts)
        done, last = 0, started
        self.metrics.prompt_tokens += job.prompt_tokens
        for count, accepted in accepted_lengths(source, len(job.tokens), drafts, self.latency.tree.acceptance):
            await asyncio.sleep(max(0.0, due - loop.time()))
            due += step
            if drafts:
                self.metrics.speculate(accepted)
            now = loop.time()
            (self.metrics.itl if done else self.metrics.ttft).observe(now - last)
            last = now
            self.metrics.generation_tokens += count
            if job.stream:
                if opening:
                    await stream.send(opening)
                    opening = None
                await stream.send(form.piece("".join(job.tokens[done : done + count]), done + count))
            done += count
        self.metrics.e2e.observe(loop.time() - started)
        if not job.stream:
            return json_response(form.whole())
        if job.usage:
            await stream.send(form.closing())
        await stream.send(b"[DONE]")
        return None


def _not_found() -> Response:
    return json_response({"detail": "Not Found"}, 404)


def _body(request: Request) -> dict[str, Any]:
    try:
        value = json.loads(request.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ApiError(400, "BadRequestError", "[{'type': 'json_invalid', 'msg': 'JSON decode error'}]")
    return cast("dict[str, Any]", value)


def _salt(body: dict[str, Any]) -> str:
    """Return what besides the prompt decides the answer: nothing when greedy, else the seed, else chance."""
    if body.get("temperature") == 0:
        return ""
    seed = body.get("seed")
    return uuid.uuid4().hex if seed is None else str(seed)


def _count(prompt: Any) -> int:
    if isinstance(prompt, list):
        parts = cast("list[Any]", prompt)
        return len(parts) if all(isinstance(part, int) for part in parts) else sum(map(_count, parts))
    return count_tokens(str(prompt))


def _messages(body: dict[str, Any]) -> list[tuple[str, str]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "BadRequestError", "[{'type': 'missing', 'loc': ('body', 'messages')}]", "messages")
    pairs: list[tuple[str, str]] = []
    for message in cast("list[Any]", messages):
        if not isinstance(message, dict):
            raise ApiError(400, "BadRequestError", "messages: Input should be a valid dictionary", "messages")
        fields = cast("dict[str, Any]", message)
        content = fields.get("content") or ""
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in cast("list[dict[str, Any]]", content))
        pairs.append((str(fields.get("role", "user")), str(content)))
    return pairs
