"""Which sequences advance in a step: continuous batching with chunked prefill, as vLLM's scheduler does it.

Running sequences first, in order of arrival, each by what it lacks; then waiting ones while tokens,
places and blocks last. What the host's memory has is loaded within the steps, by the same budget, and not
computed. When blocks run out, the youngest running sequence loses its own and waits at the front of the
queue.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from emulator.kv_cache import KvCache, Lease
from emulator.pace import Pace
from emulator.params import EngineParams


class Sequence:
    """One answer under way.  Its lease's tokens are the prompt and then the whole output, planned ahead."""

    __slots__ = (
        "aborted",
        "arrived_ns",
        "cached_tokens",
        "computed",
        "emitted",
        "fetched_tokens",
        "keeps",
        "lease",
        "load_until",
        "loaded_tokens",
        "output_tokens",
        "preemptions",
        "prompt_tokens",
        "scheduled_ns",
    )

    def __init__(self, lease: Lease, prompt_tokens: int, output_tokens: int, arrived_ns: int) -> None:
        if prompt_tokens < 1 or output_tokens < 1:
            raise ValueError("a sequence has at least one prompt token and one output token")
        self.lease = lease
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.arrived_ns = arrived_ns
        self.scheduled_ns = -1  # when it first ran; -1 = not yet
        self.computed = 0  # tokens whose keys and values are in its blocks
        self.emitted = 0
        self.cached_tokens = 0  # prompt tokens found in the cache, or below, when it first ran
        self.loaded_tokens = 0  # those of them that were found below
        self.preemptions = 0
        self.aborted = False
        self.fetched_tokens = 0  # prompt tokens whose keys and values another engine has computed
        self.load_until = 0  # up to this token what is not held is loaded
        self.keeps = False  # its blocks are to stay when it ends, until `let_go`


S = TypeVar("S", bound=Sequence)


@dataclass(frozen=True, slots=True)
class StepResult(Generic[S]):
    """What one step does; all of it is true once `duration_ns` has passed."""

    duration_ns: int
    emitted: list[S]  # each has one more token
    finished: list[S]  # those of `emitted` that are complete
    started: list[S]  # those that ran for the first time
    prefill_tokens: int
    batch: int
    loaded_tokens: int = 0


class Scheduler(Generic[S]):
    """`clock` and randomness come from outside: the instant with each step, the duration from `pace`."""

    def __init__(self, params: EngineParams, cache: KvCache, pace: Pace) -> None:
        self.cache = cache
        self._pace = pace
        self._max_seqs = params.max_num_seqs
        self._max_tokens = params.max_num_batched_tokens
        self._waiting: deque[S] = deque()
        self._running: list[S] = []
        self._kept: list[S] = []
        self._any_aborted = False
        self.preemptions = 0
        self.queried_tokens = 0
        self.hit_tokens = 0
        self.loaded_tokens = 0

    @property
    def running(self) -> int:
        """Sequences that hold blocks."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences that wait for room."""
        return len(self._waiting)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._running or self._waiting)

    def add(self, sequence: S) -> None:
        """Queue a sequence, first come first served."""
        self._waiting.append(sequence)

    def abort(self, sequence: S) -> None:
        """Its client left: the next step drops it and frees its blocks."""
        sequence.aborted = self._any_aborted = True

    def sequences(self) -> list[S]:
        """Every unfinished sequence, running ones first."""
        return [*self._running, *self._waiting]

    def leases(self) -> Iterable[Lease]:
        """Every lease that may hold blocks, for `KvCache.check`."""
        return [sequence.lease for sequence in (*self.sequences(), *self._kept)]

    def let_go(self, sequence: S) -> None:
        """Free the blocks of one that kept them; nothing happens where it has none left."""
        if sequence in self._kept:
            self._kept.remove(sequence)
            self.cache.close(sequence.lease)

    def step(self, now_ns: int) -> StepResult[S]:
        """Plan and account one step that begins at `now_ns`."""
        if self._any_aborted:
            self._drop_aborted()
        budget, prefill_tokens, loaded_tokens, preempted = self._advance_running()
        started: list[S] = []
        if not preempted:
            more_prefill_tokens, more_loaded_tokens = self._admit(budget, started, now_ns)
            prefill_tokens += more_prefill_tokens
            loaded_tokens += more_loaded_tokens
        emitted: list[S] = []
        finished: list[S] = []
        batch = len(self._running)
        for sequence in self._running:
            self.cache.commit(sequence.lease, sequence.computed)
            if sequence.computed == sequence.prompt_tokens + sequence.emitted:
                sequence.emitted += 1
                emitted.append(sequence)
                if sequence.emitted == sequence.output_tokens:
                    finished.append(sequence)
        if finished:
            for sequence in finished:
                if sequence.keeps:
                    self._kept.append(sequence)
                else:
                    self.cache.close(sequence.lease)
            self._running = [s for s in self._running if s.emitted < s.output_tokens]
        duration_ns = self._pace.duration_ns(prefill_tokens, batch, loaded_tokens) if batch else 0
        return StepResult(duration_ns, emitted, finished, started, prefill_tokens, batch, loaded_tokens)

    def quiet_steps(self) -> int:
        """How many steps from now on are alike: all decode, nobody ends, nobody waits who could be let in.

        0 says nothing: the next step may still be one of those.
        """
        running = self._running
        if not running or self._any_aborted or len(running) > self._max_tokens:
            return 0
        if self._waiting and len(running) < self._max_seqs:
            return 0
        steps = min([s.output_tokens - s.emitted for s in running]) - 1
        for sequence in running:
            if sequence.prompt_tokens + sequence.emitted - sequence.computed != 1 or not sequence.emitted:
                return 0
        size, free = self.cache.block_size, self.cache.free_blocks
        while steps > 0:
            fresh = sum([-(-(s.computed + steps) // size) - len(s.lease.blocks) for s in running])
            if fresh <= free:
                break
            steps //= 2
        return max(0, steps)

    def coast(self, steps: int) -> None:
        """Take `steps` steps at once, at most `quiet_steps()`: as if `step` had been called so often.

        Only which free block goes to which sequence may be another, and whether a block of an answer keeps
        its name where an older copy of it was evicted meanwhile.
        """
        grow, commit = self.cache.grow, self.cache.commit
        for sequence in self._running:
            sequence.computed += steps
            sequence.emitted += steps
            grow(sequence.lease, sequence.computed)
            commit(sequence.lease, sequence.computed)

    def _advance_running(self) -> tuple[int, int, int, bool]:
        budget = self._max_tokens
        prefill_tokens = loaded_tokens = 0
        preempted = False
        index = 0
        while index < len(self._running) and budget > 0:
            sequence = self._running[index]
            lacks = sequence.prompt_tokens + sequence.emitted - sequence.computed
            loads = sequence.load_until - sequence.computed
            count = min(loads if loads > 0 else lacks, budget)
            while not self.cache.grow(sequence.lease, sequence.computed + count):
                preempted = True
                victim = self._running.pop()
                self._preempt(victim)
                if victim is sequence:
                    break
            else:
                sequence.computed += count
                budget -= count
                if loads > 0:
                    loaded_tokens += count
                elif lacks > 1 or sequence.emitted == 0:
                    prefill_tokens += count
                index += 1
        return budget, prefill_tokens, loaded_tokens, preempted

    def _admit(self, budget: int, started: list[S], now_ns: int) -> tuple[int, int]:
        prefill_tokens = loaded_tokens = 0
        while self._waiting and budget > 0 and len(self._running) < self._max_seqs:
            sequence = self._waiting[0]
            total = sequence.prompt_tokens + sequence.emitted
            cached = self.cache.held(sequence.lease, total - 1)  # the last token is always computed
            ready = max(cached, min(sequence.fetched_tokens, total - 1))
            loads = self.cache.loadable(sequence.lease, cached, total - 1) if ready == cached else 0
            count = min(loads or total - ready, budget)
            if not self.cache.open(sequence.lease, cached, ready + count, loads):
                break
            self._waiting.popleft()
            self._running.append(sequence)
            sequence.computed = ready + count
            sequence.load_until = ready + loads
            budget -= count
            if loads:
                loaded_tokens += count
            else:
                prefill_tokens += count
            if sequence.scheduled_ns < 0:
                sequence.scheduled_ns = now_ns
                sequence.cached_tokens = ready + loads
                sequence.loaded_tokens = loads
                self.queried_tokens += sequence.prompt_tokens
                self.hit_tokens += ready
                self.loaded_tokens += loads
                started.append(sequence)
        return prefill_tokens, loaded_tokens

    def _preempt(self, sequence: S) -> None:
        self.cache.close(sequence.lease)
        sequence.computed = sequence.fetched_tokens = sequence.load_until = 0
        sequence.preemptions += 1
        self.preemptions += 1
        self._waiting.appendleft(sequence)

    def _drop_aborted(self) -> None:
        self._any_aborted = False
        for sequence in self._running:
            if sequence.aborted:
                self.cache.close(sequence.lease)
        self._running = [s for s in self._running if not s.aborted]
        if any(s.aborted for s in self._waiting):
            self._waiting = deque(s for s in self._waiting if not s.aborted)
