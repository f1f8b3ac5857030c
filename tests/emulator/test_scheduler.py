"""Laws of continuous batching: nothing lost, nobody starves, the cache saves work, the seed decides time."""

from collections import Counter
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.kv_cache import KvCache
from emulator.pace import Pace
from emulator.params import EngineParams
from emulator.scheduler import Scheduler, Sequence


@dataclass(frozen=True)
class Load:
    """One sequence to be."""

    prompt: tuple[int, ...]
    output: int
    at_step: int
    abort_at: int | None = None


def params(blocks: int = 16, seqs: int = 4, tokens: int = 16, seed: int = 0, host: int = 0) -> EngineParams:
    return EngineParams(
        block_size=4,
        num_blocks=blocks,
        host_blocks=host,
        max_model_len=blocks * 4,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        seed=seed,
    )


def scheduler_of(p: EngineParams) -> Scheduler[Sequence]:
    cache = KvCache(p.num_blocks, p.block_size, host_blocks=p.host_blocks)
    return Scheduler(p, cache, Pace(p, Random(p.seed)))


def sequence(scheduler: Scheduler[Sequence], prompt: tuple[int, ...], output: int, at: int = 0) -> Sequence:
    lease = scheduler.cache.lease((*prompt, *range(1000, 1000 + output)))
    return Sequence(lease, len(prompt), output, at)


def run(p: EngineParams, loads: list[Load]) -> list[tuple[int, tuple[int, ...], int, int]]:
    """Every step to the end: (duration, who emitted, prefill tokens, batch), the books checked at each."""
    scheduler = scheduler_of(p)
    lives: dict[int, Sequence] = {}
    history: list[tuple[int, tuple[int, ...], int, int]] = []
    now = 0
    for step in range(20_000):
        for number, load in enumerate(loads):
            if load.at_step == step:
                lives[number] = sequence(scheduler, load.prompt, load.output, now)
                scheduler.add(lives[number])
            if load.abort_at is not None and load.abort_at == step - load.at_step:
                scheduler.abort(lives[number])
        result = scheduler.step(now)
        now += result.duration_ns
        numbers = tuple(n for n, live in lives.items() if live in result.emitted)
        history.append((result.duration_ns, numbers, result.prefill_tokens, result.batch))
        scheduler.cache.check(scheduler.leases())
        assert result.batch <= p.max_num_seqs
        assert result.prefill_tokens + result.loaded_tokens <= p.max_num_batched_tokens
        if not scheduler.has_work and step > max((load.at_step for load in loads), default=0):
            break
    assert scheduler.cache.free_blocks == p.num_blocks, "every block came back"
    for number, live in lives.items():
        if loads[number].abort_at is None:
            assert live.emitted == loads[number].output, "everyone got all its tokens"
            assert sum(number in numbers for _, numbers, _, _ in history) == live.emitted
    return history


LOADS = st.lists(
    st.builds(
        Load,
        st.lists(st.integers(0, 1), min_size=1, max_size=30).map(tuple),
        st.integers(1, 30),
        st.integers(0, 20),
        st.none() | st.integers(0, 10),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(LOADS, st.integers(16, 30), st.integers(1, 6), st.integers(1, 40), st.sampled_from([0, 2, 50]))
def test_all_are_served_and_all_blocks_return(
    loads: list[Load], blocks: int, seqs: int, tokens: int, host: int
) -> None:
    history = run(params(blocks, seqs, tokens, host=host), loads)
    emitted = Counter(number for _, numbers, _, _ in history for number in numbers)
    for number, load in enumerate(loads):
        assert emitted[number] == load.output or (load.abort_at is not None and emitted[number] < load.output)


@settings(max_examples=30, deadline=None)
@given(LOADS, st.integers(0, 5))
def test_equal_seeds_give_equal_time(loads: list[Load], seed: int) -> None:
    assert run(params(seed=seed), loads) == run(params(seed=seed), loads)


def test_the_queue_is_first_come_first_served() -> None:
    loads = [Load((number,) * 8, 4, 0) for number in range(10)]
    history = run(params(blocks=64, seqs=2, tokens=64), loads)
    firsts = [number for _, numbers, _, _ in history for number in numbers]
    order = list(dict.fromkeys(firsts))
    assert order == sorted(order)


def test_a_cached_prefix_is_not_computed_again() -> None:
    scheduler = scheduler_of(params(blocks=32, tokens=64))
    prompt = tuple(range(20))
    scheduler.add(sequence(scheduler, prompt, 1))
    assert scheduler.step(0).prefill_tokens == 20
    again = sequence(scheduler, (*prompt, 77), 1)
    scheduler.add(again)
    assert scheduler.step(1).prefill_tokens == 1
    assert (again.cached_tokens, scheduler.queried_tokens, scheduler.hit_tokens) == (20, 41, 20)


def test_what_the_host_has_is_loaded_in_chunks_and_not_computed() -> None:
    scheduler = scheduler_of(params(blocks=8, tokens=10, host=8))
    prompt = tuple(range(24))
    for words in (prompt, (7,) * 30):
        scheduler.add(sequence(scheduler, words, 1))
        while scheduler.has_work:
            scheduler.step(0)
    again = sequence(scheduler, (*prompt, 77), 1)
    cached = scheduler.cache.held(again.lease, 24)
    scheduler.add(again)
    steps = [scheduler.step(1) for _ in range(4)]
    loads = [result.loaded_tokens for result in steps]
    assert cached < 24 and sum(loads) == 24 - cached and loads[0] == 10
    assert [result.prefill_tokens for result in steps if result.prefill_tokens] == [1]
    assert again.emitted == 1 and not scheduler.has_work
    assert (again.cached_tokens, again.loaded_tokens) == (24, 24 - cached)
    assert scheduler.loaded_tokens == 24 - cached and scheduler.hit_tokens == cached


def test_loading_takes_its_own_time_and_no_prefills() -> None:
    p = EngineParams(
        jitter=0.0, hiccup_rate=0.0, base_ms=6.0, ms_per_prefill_token=0.02, ms_per_loaded_token=0.002
    )
    pace = Pace(p, Random(0))
    assert pace.duration_ns(0, 0, 1000) == 8_000_000
    assert pace.duration_ns(100, 0, 1000) == 10_000_000


def test_the_whole_prompt_is_never_a_hit() -> None:
    scheduler = scheduler_of(params(blocks=32, tokens=64))
    for _ in range(2):
        scheduler.add(sequence(scheduler, tuple(range(20)), 1))
        result = scheduler.step(0)
    assert result.prefill_tokens == 4 and len(result.finished) == 1


def test_a_long_prompt_is_cut_into_chunks_that_share_steps_with_decoding() -> None:
    scheduler = scheduler_of(params(blocks=64, tokens=10))
    talking = sequence(scheduler, (1, 2), 20)
    scheduler.add(talking)
    scheduler.step(0)
    reading = sequence(scheduler, tuple(range(40)), 1)
    scheduler.add(reading)
    steps = [scheduler.step(1) for _ in range(5)]
    assert [result.prefill_tokens for result in steps] == [9, 9, 9, 9, 4]
    assert all(talking in result.emitted for result in steps)
    assert [reading in result.emitted for result in steps] == [False] * 4 + [True]


def test_when_blocks_run_out_the_youngest_gives_way_and_still_ends() -> None:
    p = params(blocks=10, seqs=4, tokens=40)
    scheduler = scheduler_of(p)
    lives = [sequence(scheduler, (number,) * 8, 16) for number in range(3)]
    for live in lives:
        scheduler.add(live)
    finished: list[Sequence] = []
    for step in range(200):
        finished.extend(scheduler.step(step).finished)
    assert scheduler.preemptions > 0
    assert finished[0] is lives[0] and lives[0].preemptions == 0
    assert set(finished) == set(lives) and all(live.emitted == 16 for live in lives)


def test_an_aborted_sequence_leaves_at_the_next_step() -> None:
    scheduler = scheduler_of(params())
    running, waiting = sequence(scheduler, (1,) * 8, 9), sequence(scheduler, (2,) * 8, 9)
    scheduler.add(running)
    scheduler.step(0)
    scheduler.add(waiting)
    scheduler.abort(running)
    scheduler.abort(waiting)
    result = scheduler.step(1)
    assert not result.emitted and result.duration_ns == 0 and not scheduler.has_work
    assert scheduler.cache.free_blocks == 16


def test_steps_grow_with_the_batch_and_with_uncached_prompt_tokens() -> None:
    p = EngineParams(jitter=0.0, hiccup_rate=0.0, base_ms=6.0, ms_per_prefill_token=0.02, ms_per_seq=0.05)
    pace = Pace(p, Random(0))
    assert pace.duration_ns(0, 0) == 6_000_000
    assert pace.duration_ns(0, 40) == 8_000_000
    assert pace.duration_ns(500, 40) == 18_000_000


def test_jitter_leaves_the_mean_and_speed_divides_it() -> None:
    def mean_ms(**changes: float) -> float:
        p = EngineParams(jitter=0.1, hiccup_rate=0.0, **changes)  # type: ignore[arg-type]
        pace = Pace(p, Random(1))
        return sum(pace.duration_ns(0, 0) for _ in range(4000)) / 4000 / 1e6

    assert abs(mean_ms() - 6.0) < 0.05
    assert abs(mean_ms(speed=2.0) - 3.0) < 0.03
    assert abs(mean_ms(slow=1.5) - 9.0) < 0.08


@settings(max_examples=200, deadline=None)
@given(
    LOADS,
    st.integers(8, 30),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(1, 50),
    st.sampled_from([0, 3, 30]),
)
def test_coasting_over_quiet_steps_leaves_what_taking_them_one_by_one_leaves(
    loads: list[Load], blocks: int, seqs: int, tokens: int, most: int, host: int
) -> None:
    stepped, coasted = (scheduler_of(params(blocks, seqs, tokens, host=host)) for _ in range(2))
    lives: list[tuple[Sequence, Sequence]] = []
    comes: dict[int, list[Load]] = {}
    for load in loads:
        if len(load.prompt) + load.output <= blocks * 4:
            comes.setdefault(load.at_step, []).append(load)
    step = 0
    while comes or stepped.has_work:
        for load in comes.pop(step, ()):
            answer = range(1000 * len(lives), 1000 * len(lives) + load.output)  # of its own
            leases = [one.cache.lease((*load.prompt, *answer)) for one in (stepped, coasted)]
            pair = [Sequence(lease, len(load.prompt), load.output, 0) for lease in leases]
            stepped.add(pair[0])
            coasted.add(pair[1])
            lives.append((pair[0], pair[1]))
        quiet = min(coasted.quiet_steps(), most, min(comes, default=step + most) - step)
        for _ in range(quiet or 1):
            result = stepped.step(0)
            assert not quiet or not (result.finished or result.started or result.prefill_tokens)
        if quiet:
            coasted.coast(quiet)
        else:
            coasted.step(0)
        step += quiet or 1
        coasted.cache.check(coasted.leases())
        assert coasted.cache.free_blocks == stepped.cache.free_blocks
        for one, other in lives:
            assert (one.computed, one.emitted, one.preemptions) == (
                other.computed,
                other.emitted,
                other.preemptions,
            )
            held = [
                [(cache.has(name), cache.has_below(name)) for name in one.lease.chain]
                for cache in (stepped.cache, coasted.cache)
            ]
            assert held[0] == held[1]
