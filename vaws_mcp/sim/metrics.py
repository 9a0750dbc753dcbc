"""Counters of the simulated server in Prometheus text, with vLLM's names."""

import time
from dataclasses import dataclass, field

Sample = tuple[str, dict[str, str], float]
LATENCY_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass
class Histogram:
    """A Prometheus histogram of seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    total: float = 0.0

    def observe(self, value: float) -> None:
        """Add one value."""
        self.total += value
        self.counts[sum(value > bound for bound in LATENCY_BUCKETS)] += 1


@dataclass
class Metrics:
    """What the server has done since its start; every number only grows, except the two gauges."""

    model: str
    draft_tokens: int = 0
    started: float = field(default_factory=time.time)
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    drafts: int = 0
    drafted: int = 0
    accepted_at: list[int] = field(default_factory=list[int])
    ttft: Histogram = field(default_factory=Histogram)
    itl: Histogram = field(default_factory=Histogram)
    e2e: Histogram = field(default_factory=Histogram)

    def __post_init__(self) -> None:
        self.accepted_at = [0] * self.draft_tokens

    def speculate(self, accepted: int) -> None:
        """Count one draft and how many of its tokens were accepted, from the first position on."""
        self.drafts += 1
        self.drafted += self.draft_tokens
        for position in range(accepted):
            self.accepted_at[position] += 1

    def render(self) -> str:
        """Return the text of ``/metrics``."""
        lines: list[str] = []
        self._gauges(lines)
        self._counters(lines)
        if self.draft_tokens:
            self._speculation(lines)
        for name, text, histogram in (
            ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", self.ttft),
            ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", self.itl),
            ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", self.e2e),
        ):
            self._histogram(lines, name, text, histogram)
        return "\n".join(lines) + "\n"

    def _sample(self, name: str, value: float, **labels: str) -> str:
        pairs = {"engine": "0", "model_name": self.model, **labels}
        inner = ",".join(f'{key}="{text}"' for key, text in pairs.items())
        return f"vllm:{name}{{{inner}}} {float(value)!r}"

    def _gauges(self, lines: list[str]) -> None:
        for name, text, value in (
            ("num_requests_running", "Number of requests in model execution batches.", self.running),
            ("num_requests_waiting", "Number of requests waiting to be processed.", self.waiting),
            ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", min(1.0, self.running / 256)),
        ):
            lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} gauge", self._sample(name, value)]

    def _counter(self, lines: list[str], name: str, text: str, samples: list[tuple[dict[str, str], float]]) -> None:
        lines += [f"# HELP vllm:{name}_total {text}", f"# TYPE vllm:{name}_total counter"]
        lines += [self._sample(f"{name}_total", value, **labels) for labels, value in samples]
        lines += [f"# HELP vllm:{name}_created {text}", f"# TYPE vllm:{name}_created gauge"]
        lines += [self._sample(f"{name}_created", self.started, **labels) for labels, _ in samples]

    def _counters(self, lines: list[str]) -> None:
        self._counter(lines, "prefix_cache_queries", "Prefix cache queries, in tokens.", [({}, self.prompt_tokens)])
        self._counter(lines, "prefix_cache_hits", "Prefix cache hits, in cached tokens.", [({}, 0)])
        self._counter(lines, "prompt_tokens", "Number of prefill tokens processed.", [({}, self.prompt_tokens)])
        self._counter(
            lines, "generation_tokens", "Number of generation tokens processed.", [({}, self.generation_tokens)]
        )
        done = [({"finished_reason": reason}, float(count)) for reason, count in self.finished.items()]
        self._counter(lines, "request_success", "Count of successfully processed requests.", done)

    def _speculation(self, lines: list[str]) -> None:
        accepted = sum(self.accepted_at)
        self._counter(lines, "spec_decode_num_drafts", "Number of spec decoding drafts.", [({}, self.drafts)])
        self._counter(lines, "spec_decode_num_draft_tokens", "Number of draft tokens.", [({}, self.drafted)])
        self._counter(lines, "spec_decode_num_accepted_tokens", "Number of accepted tokens.", [({}, accepted)])
        by_position = [({"position": str(index)}, float(count)) for index, count in enumerate(self.accepted_at)]
        name = "spec_decode_num_accepted_tokens_per_pos"
        self._counter(lines, name, "Accepted tokens per draft position.", by_position)

    def _histogram(self, lines: list[str], name: str, text: str, histogram: Histogram) -> None:
        lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} histogram"]
        seen = 0
        for bound, count in zip((*map(str, LATENCY_BUCKETS), "+Inf"), histogram.counts, strict=True):
            seen += count
            lines.append(self._sample(f"{name}_bucket", seen, le=bound))
        lines += [self._sample(f"{name}_count", seen), self._sample(f"{name}_sum", histogram.total)]
