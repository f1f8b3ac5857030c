"""An emulated engine in virtual time: the emulator's scheduler and cache, stepped by events, not by a clock.

Stretches in which every step only decodes are taken at once (`Scheduler.coast`), so an engine costs what
happens at it and not what it emits.
"""

from collections.abc import Callable
from random import Random

from bench.routing.asks import Ask
from emulator.kv_cache import KvCache, Lease
from emulator.pace import Pace
from emulator.params import EngineParams
from emulator.scheduler import Scheduler, Sequence, StepResult


class Answer(Sequence):
    """One request at an engine.  Instants are nanoseconds of virtual time; 0 = not yet."""

    __slots__ = ("ask", "ended_ns", "first_ns")

    def __init__(self, ask: Ask, arrived_ns: int) -> None:
        total = ask.prompt_tokens + ask.output_tokens
        lease = Lease(range(total), ask.blocks, "", "")
        super().__init__(lease, ask.prompt_tokens, ask.output_tokens, arrived_ns)
        self.ask = ask
        self.first_ns = 0
        self.ended_ns = 0


class Engine:
    """`wake(at_ns, engine)` asks to be called by `work` at that instant; older wishes are void."""

    def __init__(
        self,
        params: EngineParams,
        rng: Random,
        wake: Callable[[int, "Engine"], None],
        began: Callable[[Answer, int], None],
        ended: Callable[[Answer, int], None],
    ) -> None:
        self.params = params
        self.cache = KvCache(
            params.num_blocks,
            params.block_size,
            host_blocks=params.host_blocks,
            prefix_caching=params.prefix_caching,
        )
        self._pace = Pace(params, rng)
        self.scheduler: Scheduler[Answer] = Scheduler(params, self.cache, self._pace)
        self._wake, self._began, self._ended = wake, began, ended
        self._result: StepResult[Answer] | None = None  # of the step under way
        self._quiet, self._step_ns, self._since_ns = 0, 0, 0  # steps that are coasted, from when
        self.due_ns = -1  # -1: nothing to do

    @property
    def stepping(self) -> bool:
        """A step is under way that is not one of many alike."""
        return self._result is not None

    def submit(self, answer: Answer, now_ns: int) -> bool:
        """Queue it; False when the queue is full."""
        limit = self.params.max_queued
        if limit and self.scheduler.waiting >= limit:
            return False
        self.scheduler.add(answer)
        if self.due_ns < 0:
            self._plan(now_ns)
        elif self._quiet:  # the step under way is the last of the stretch
            self._quiet = -(-(now_ns - self._since_ns) // self._step_ns) or 1
            self._due(self._since_ns + self._quiet * self._step_ns)
        return True

    def work(self, now_ns: int) -> None:
        """The instant that was asked for has come."""
        self.due_ns = -1
        result, self._result = self._result, None
        if self._quiet:
            self.scheduler.coast(self._quiet)
            self._quiet = 0
        elif result is not None:
            for answer in result.emitted:
                if answer.emitted == 1:
                    answer.first_ns = now_ns
                    self._began(answer, now_ns)
            for answer in result.finished:
                answer.ended_ns = now_ns
                self._ended(answer, now_ns)
        self._plan(now_ns)

    def _plan(self, now_ns: int) -> None:
        scheduler = self.scheduler
        if not scheduler.has_work:
            self.due_ns = -1
            return
        quiet = scheduler.quiet_steps()
        if quiet > 1:
            self._quiet, self._since_ns = quiet, now_ns
            self._step_ns = self._pace.duration_ns(0, scheduler.running)
            self._due(now_ns + quiet * self._step_ns)
            return
        self._result = result = scheduler.step(now_ns)
        self._due(now_ns + result.duration_ns)

    def _due(self, at_ns: int) -> None:
        if at_ns != self.due_ns:
            self.due_ns = at_ns
            self._wake(at_ns, self)
