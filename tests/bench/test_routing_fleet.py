"""The fleet in virtual time does what emulated engines do, and the routing bench is fair and repeatable."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.routing.asks import Ask, Talk
from bench.routing.engine import Answer, Engine
from bench.routing.measures import measure
from bench.routing.oracles import Clairvoyant, Pooled
from bench.routing.ours import Ours
from bench.routing.plans import policy_of
from bench.routing.setting import Setting
from bench.routing.table import behind, table
from bench.routing.traces import DRAWN, drawn
from bench.routing.world import Chooser, Plan, Run, run
from emulator.kv_cache import KvCache
from emulator.pace import Pace
from emulator.scheduler import Scheduler

SMALL = Setting(engines=4, kv_tokens=60_000)
PIECES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 90)), min_size=1, max_size=6)


def replay(policy: str, trace: str, speed: float, asks: int = 150, setting: Setting = SMALL) -> Run:
    def chooser(engines: Sequence[Engine]) -> Chooser:
        return Ours(lambda: policy_of(policy), setting, 1, engines)

    return run(Plan(drawn(trace, 7, setting.block_size), speed, asks, setting, 1), chooser)


def told(pieces: list[tuple[int, int]]) -> Talk:
    talk = Talk(16, 4.0)
    for piece in pieces:
        talk.say(piece)
    return talk


@given(PIECES, PIECES, PIECES)
def test_what_two_prompts_share_is_what_their_blocks_and_chains_share(
    shared: list[tuple[int, int]], first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    one, other = told([*shared, (100, 7), *first]), told([*shared, (200, 7), *second])
    tokens = sum(length for _, length in shared)
    same = [a == b for a, b in zip(one.blocks, other.blocks, strict=False)]
    assert all(same[: tokens // 16]) and not any(same[tokens // 16 :])
    equal = {a for a, b in zip(one.chain, other.chain, strict=False) if a == b}
    assert len(equal) == len(told(shared).chain)
    assert one.ends[len(equal) - 1] == 4 * tokens


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 400), st.integers(1, 60)), min_size=1, max_size=12),
    st.sampled_from([0, 800, 8000]),
)
def test_an_engine_that_coasts_answers_at_the_instants_of_one_that_steps(
    loads: list[tuple[int, int, int]], host: int
) -> None:
    setting = Setting(kv_tokens=800, host_tokens=host, batched_tokens=64, max_seqs=4, max_queued=0)
    asks = []
    for place, (at, prompt, output) in enumerate(loads):
        talk = Talk(16, 4.0)
        talk.say((0, min(prompt, 200)))
        talk.say((1 + place, 1 + prompt // 2))
        asks.append((at * 7_000_000 + 1, talk.asked((1000 + place, output), 0, 0)))
    asks.sort(key=lambda one: one[0])
    assert coasted(setting, asks) == stepped(setting, asks)


def coasted(setting: Setting, asks: list[tuple[int, Ask]]) -> list[tuple[int, int, int]]:
    due: list[int] = []
    engine = Engine(setting.params(0), Random(1), lambda at, _: due.append(at), _ignore, _ignore)
    answers, comes = [Answer(ask, at) for at, ask in asks], list(asks)
    while comes or engine.due_ns >= 0:
        if comes and (engine.due_ns < 0 or comes[0][0] < engine.due_ns):
            assert engine.submit(answers[len(answers) - len(comes)], comes[0][0])
            comes.pop(0)
        else:
            engine.work(engine.due_ns)
    return [(one.first_ns, one.ended_ns, one.cached_tokens) for one in answers]


def stepped(setting: Setting, asks: list[tuple[int, Ask]]) -> list[tuple[int, int, int]]:
    params = setting.params(0)
    scheduler: Scheduler[Answer] = Scheduler(
        params,
        KvCache(params.num_blocks, params.block_size, host_blocks=params.host_blocks),
        Pace(params, Random(1)),
    )
    answers, now = [Answer(ask, at) for at, ask in asks], 0
    comes = list(answers)
    while comes or scheduler.has_work:
        if not scheduler.has_work:
            now = max(now, comes[0].arrived_ns)
        while comes and (comes[0].arrived_ns < now or not scheduler.has_work):
            scheduler.add(comes.pop(0))
        result = scheduler.step(now)
        now += result.duration_ns
        for answer in result.emitted:
            if answer.emitted == 1:
                answer.first_ns = now
        for answer in result.finished:
            answer.ended_ns = now
    return [(one.first_ns, one.ended_ns, one.cached_tokens) for one in answers]


def _ignore(answer: Answer, now_ns: int) -> None:
    pass


@pytest.mark.parametrize("trace", DRAWN)
def test_every_request_ends_once_and_the_same_seed_gives_the_same_run(trace: str) -> None:
    ran = replay("prefix_cost", trace, 1.0)
    assert len(ran.outcomes) >= 40
    assert all(one.arrived_s < one.first_s <= one.ended_s for one in ran.outcomes)
    assert ran.outcomes == replay("prefix_cost", trace, 1.0).outcomes


def test_what_all_engines_refuse_is_a_miss() -> None:
    ran = replay("least_load", "all-unique", 200.0, setting=Setting(engines=2, max_queued=3))
    figures = measure(ran)
    assert 0.5 < figures.refused < 1.0
    assert figures.goodput <= 1.0 - figures.refused


def test_the_oracles_know_more_than_any_policy() -> None:
    pooled: list[Pooled] = []

    def clairvoyant(engines: Sequence[Engine]) -> Chooser:
        pooled.append(Pooled(Clairvoyant(SMALL, engines), SMALL))
        return pooled[0]

    ran = run(Plan(drawn("multi-turn", 7, 16), 1.0, 150, SMALL, 1), clairvoyant)
    oracle, least = measure(ran), measure(replay("least_load", "multi-turn", 1.0))
    assert oracle.hit > least.hit + 0.2
    assert oracle.ttft_p90_s < least.ttft_p90_s
    assert oracle.goodput >= least.goodput
    assert sum(pooled[0].held) >= sum(one.cached_tokens for one in ran.outcomes)


def test_reuse_shows_in_the_policies_order() -> None:
    hits = {
        policy: measure(replay(policy, "multi-turn", 1.0)).hit
        for policy in ("round_robin", "least_load", "sglang_cache_aware", "prefix_cost")
    }
    assert max(hits["round_robin"], hits["least_load"]) + 0.2 < min(
        hits["sglang_cache_aware"], hits["prefix_cost"]
    )


def test_nothing_is_left_in_the_books_of_the_workers() -> None:
    setting = Setting(engines=3, workers=2, kv_tokens=60_000)
    made: list[Ours] = []

    def chooser(engines: Sequence[Engine]) -> Chooser:
        made.append(Ours(lambda: policy_of("prefix_cost"), setting, 1, engines))
        return made[0]

    run(Plan(drawn("agents", 3, 16), 0.5, 100, setting, 1), chooser)
    assert made[0].loads() == [(0,) * len(one) for one in made[0].loads()]


def test_the_table_names_who_is_ahead_of_ours() -> None:
    good = measure(replay("prefix_cost", "all-unique", 1.0))
    bad = measure(replay("prefix_cost", "all-unique", 60.0))
    seeds = [[(0.5, "prefix_cost", bad), (0.5, "least_load", good)]] * 3
    assert [line.split(" has ")[0] for line in behind(seeds)] == ["load 50%: least_load"] * 2
    assert not list(behind([[(0.5, "prefix_cost", good), (0.5, "least_load", good)]] * 3))
    assert "| least_load |" in "\n".join(table(seeds))
    untold = replace(good, imbalance=nan)  # as over HTTP
    assert " |  | " in "\n".join(table([[(0.5, "least_load", untold)]] * 2))


def test_a_setting_that_a_policy_has_not_is_refused() -> None:
    assert policy_of("sglang_cache_aware:cache_threshold=0.5,balance_abs_threshold=3")
    with pytest.raises(ValueError, match="no setting warmth"):
        policy_of("sglang_cache_aware:warmth=3")
