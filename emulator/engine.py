"""The engine at work: one task steps the scheduler on an absolute clock and hands each token to its answer.

The deadline of a step is the last deadline plus the step's duration, not "now" plus it, so what a timer
rounds is not added up and the mean inter-token latency is what the pace says.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol

from emulator.asks import Ask
from emulator.faults import Fault, Faults
from emulator.generation import Generator, Plan
from emulator.kv_cache import CacheEvent, KvCache, Lease
from emulator.metrics import EngineMetrics
from emulator.pace import Pace
from emulator.params import EngineParams
from emulator.refusals import busy
from emulator.scheduler import Scheduler, Sequence, StepResult
from emulator.text import Tokenizer

_NEVER = 1 << 62


class Sink(Protocol):
    """Where the tokens of an answer go.  Called from the engine's task; must not wait."""

    def token(self, live: "Live") -> None:
        """`live.emitted` grew by one."""

    def fail(self, fault: Fault) -> None:
        """The answer breaks here."""


class Live(Sequence):
    """A sequence with its words and its listener."""

    __slots__ = ("fault", "fault_after", "first_ns", "index", "last_ns", "plan", "sink")

    def __init__(
        self, lease: Lease, prompt_tokens: int, plan: Plan, arrived_ns: int, index: int, sink: Sink
    ) -> None:
        super().__init__(lease, prompt_tokens, len(plan.tokens), arrived_ns)
        self.plan = plan
        self.index = index
        self.sink = sink
        self.first_ns = 0
        self.last_ns = 0
        self.fault: Fault | None = None
        self.fault_after = _NEVER


class Engine:
    """`clock` gives monotonic nanoseconds; `publish` takes what the KV cache stored and removed in a step."""

    def __init__(
        self,
        params: EngineParams,
        clock: Callable[[], int],
        publish: Callable[[list[CacheEvent]], None] | None = None,
    ) -> None:
        self.params = params
        self.clock = clock
        self.tokenizer = Tokenizer()
        self.generator = Generator(
            self.tokenizer, model_seed=params.model_seed, rng=Random(f"sampling {params.seed}"),
            diverge_rate=params.diverge_rate, median=params.output_tokens, sigma=params.output_sigma,
        )  # fmt: skip
        self.faults = Faults(params, Random(f"faults {params.seed}"))
        self.metrics = EngineMetrics(params.model)
        cache = KvCache(
            params.num_blocks, params.block_size, host_blocks=params.host_blocks,
            prefix_caching=params.prefix_caching, record_events=publish is not None, seed=params.seed,
        )  # fmt: skip
        self.scheduler: Scheduler[Live] = Scheduler(
            params, cache, Pace(params, Random(f"pace {params.seed}"))
        )
        self._publish = publish
        self._wake = asyncio.Event()
        self._max_lag_ns = int(params.max_lag_ms * 1e6)

    def submit(self, ask: Ask, sink: Sink, fault: Fault | None = None) -> list[Live]:
        """Queue every answer of `ask`; Refusal when the queue is full."""
        limit = self.params.max_queued
        if fault is Fault.REFUSE or (limit and self.scheduler.waiting >= limit):
            self.metrics.rejections += 1
            raise busy()
        now = self.clock()
        lives: list[Live] = []
        for index, (prompt, wish) in enumerate(zip(ask.prompts, ask.wishes, strict=True)):
            plan = self.generator.plan(prompt, wish)
            lease = self.scheduler.cache.lease((*prompt, *plan.tokens), ask.salt)
            live = Live(lease, len(prompt), plan, now, index, sink)
            live.keeps = ask.keeps_kv
            live.fetched_tokens = len(prompt) if ask.fetched_kv else 0
            if fault is not None:
                live.fault = fault
                live.fault_after = self.faults.position(live.output_tokens)
            lives.append(live)
            self.scheduler.add(live)
        self._wake.set()
        return lives

    def abort(self, live: Live) -> None:
        """Its client left; nothing happens to a finished one."""
        if live.emitted < live.output_tokens and not live.aborted:
            self.scheduler.abort(live)
            self.metrics.success["abort"] += 1

    def reset_prefix_cache(self) -> bool:
        """Forget the prefixes; False while requests run."""
        done = self.scheduler.cache.reset()
        self._flush_events()
        return done

    def load(self) -> tuple[int, int, int]:
        """Running requests, waiting ones, and the blocks in use."""
        scheduler, cache = self.scheduler, self.scheduler.cache
        return scheduler.running, scheduler.waiting, cache.num_blocks - cache.free_blocks

    def fail_all(self) -> None:
        """The engine dies: everything under way breaks with an error."""
        for live in self.scheduler.sequences():
            live.sink.fail(Fault.ERROR)

    async def run(self) -> None:
        """Step until cancelled; parked while there is nothing to do."""
        clock, scheduler = self.clock, self.scheduler
        deadline = clock()
        while True:
            if not scheduler.has_work:
                self._wake.clear()
                await self._wake.wait()
                deadline = clock()
            result = scheduler.step(deadline)
            deadline += result.duration_ns
            now = clock()
            if now - deadline > self._max_lag_ns:
                deadline = now
            await asyncio.sleep(max(0, deadline - now) / 1e9)
            self._deliver(result)

    def _deliver(self, result: StepResult[Live]) -> None:
        metrics = self.metrics
        now = self.clock()
        for live in result.started:
            metrics.prompt_tokens += live.prompt_tokens
            metrics.prompt_tokens_cached += live.cached_tokens
            metrics.prompt_tokens_loaded += live.loaded_tokens
        metrics.generation_tokens += len(result.emitted)
        if result.batch:
            metrics.iteration_tokens.observe(result.prefill_tokens + len(result.emitted))
        observe_itl = metrics.itl.observe
        for live in result.emitted:
            if live.aborted:
                continue
            if live.emitted > live.fault_after and live.fault is not None:
                live.sink.fail(live.fault)
                continue
            if live.emitted > 1:
                observe_itl((now - live.last_ns) / 1e9)
            else:
                live.first_ns = now
                metrics.ttft.observe((now - live.arrived_ns) / 1e9)
            live.last_ns = now
            live.sink.token(live)
        for live in result.finished:
            self._count_finished(live)
        if self._publish is not None:
            self._flush_events()

    def _flush_events(self) -> None:
        events = self.scheduler.cache.drain_events()
        if events and self._publish is not None:
            self._publish(events)

    def _count_finished(self, live: Live) -> None:
        if live.aborted or not live.first_ns:
            return
        metrics = self.metrics
        metrics.success[live.plan.finish_reason] += 1
        metrics.e2e.observe((live.last_ns - live.arrived_ns) / 1e9)
        metrics.queue.observe((live.scheduled_ns - live.arrived_ns) / 1e9)
        metrics.inference.observe((live.last_ns - live.scheduled_ns) / 1e9)
        metrics.prefill.observe((live.first_ns - live.scheduled_ns) / 1e9)
        metrics.decode.observe((live.last_ns - live.first_ns) / 1e9)
        if live.output_tokens > 1:
            metrics.tpot.observe((live.last_ns - live.first_ns) / 1e9 / (live.output_tokens - 1))
        metrics.prompt_lengths.observe(live.prompt_tokens)
        metrics.output_lengths.observe(live.output_tokens)
