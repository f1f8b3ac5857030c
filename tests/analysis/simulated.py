"""Emulated engines on a clock of their own: what each answers to its requests, without waiting."""

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import mean

from analysis.measure import AnswerMeasure
from emulator.kv_cache import KvCache
from emulator.pace import Pace
from emulator.params import EngineParams
from emulator.scheduler import Scheduler, Sequence


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the simulated traffic."""

    number: int
    at_ns: int
    prompt_tokens: int
    output_tokens: int


def traffic(seconds: float, per_s: float, rng: Random) -> list[Request]:
    """Poisson arrivals of prompts and answers of various lengths."""
    requests, at_s = list[Request](), 0.0
    while (at_s := at_s + rng.expovariate(per_s)) < seconds:
        prompt, output = rng.randint(20, 60), rng.randint(40, 90)
        requests.append(Request(len(requests), 10**12 + int(at_s * 1e9), prompt, output))
    return requests


def answers(arm: str, requests: list[Request], params: EngineParams, seed: str) -> dict[int, AnswerMeasure]:
    """What one engine answers to `requests`, by number: each token at the instant its step ended."""
    rng = Random(seed)
    cache = KvCache(params.num_blocks, params.block_size, prefix_caching=False, record_events=False, seed=0)
    scheduler: Scheduler[_Timed] = Scheduler(params, cache, Pace(params, rng))
    waiting, now_ns, done = list(reversed(requests)), 0, dict[int, AnswerMeasure]()
    while waiting or scheduler.has_work:
        if not scheduler.has_work:
            now_ns = max(now_ns, waiting[-1].at_ns)
        while waiting and waiting[-1].at_ns <= now_ns:
            request = waiting.pop()
            tokens = tuple(rng.getrandbits(16) for _ in range(request.prompt_tokens + request.output_tokens))
            scheduler.add(_Timed(cache.lease(tokens, ""), request))
        step = scheduler.step(now_ns)
        now_ns += step.duration_ns
        for sequence in step.emitted:
            sequence.tokens_ns.append(now_ns)
        for sequence in step.finished:
            done[sequence.request.number] = sequence.measured(arm)
    return done


class _Timed(Sequence):
    __slots__ = ("request", "tokens_ns")

    def __init__(self, lease: object, request: Request) -> None:
        super().__init__(lease, request.prompt_tokens, request.output_tokens, request.at_ns)  # type: ignore[arg-type]
        self.request = request
        self.tokens_ns: list[int] = []

    def measured(self, arm: str) -> AnswerMeasure:
        sent, instants = self.request.at_ns, self.tokens_ns
        itl_ms = mean((b - a) / 1e6 for a, b in pairwise(instants))
        ttft_ms, e2e_ms = (instants[0] - sent) / 1e6, (instants[-1] - sent) / 1e6
        return AnswerMeasure(
            arm=arm, twin=0, order=0, sent_ns=sent, end_ns=instants[-1], status=200, fault=None,
            streamed=True,
            ttft_ms=ttft_ms, ttft_user_ms=ttft_ms, itl_ms=itl_ms, tpot_ms=itl_ms, e2e_ms=e2e_ms,
            prompt_tokens=self.prompt_tokens, completion_tokens=len(instants), cached_tokens=0,
            token_source="usage", finish_reason="stop",
        )  # fmt: skip


def mean_inflight(done: dict[int, AnswerMeasure], seconds: float) -> float:
    """Requests in flight, averaged over time."""
    return sum((a.end_ns - a.sent_ns) / 1e9 for a in done.values()) / seconds
