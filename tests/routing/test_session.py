"""Requests of one session go to one engine, as long as that costs little."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.cost import home
from routing.policies import prefix_cost, session
from routing.prompt import named_by, read
from routing.types import EngineLoad, Prompt, Rates

ids = st.lists(st.integers(0, 500), min_size=2, max_size=12, unique=True)


def prompt(session: int = 0, root: int = 0) -> Prompt:
    return Prompt("m", (1,), (8000,), root, 0, True, None, session)


def engine(id: int, pending_bytes: int = 0, *, learned: bool = True) -> EngineLoad:
    made = EngineLoad(id, 0, pending_bytes)
    made.rates = Rates(64, 1e-4) if learned else None
    return made


def body(path: str, **fields: object) -> Prompt:
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "hi", "prompt": "hi"}
    return read(path, json.dumps({**asked, **fields}).encode(), b"k")


PATHS = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/generate"]


@pytest.mark.parametrize("path", PATHS)
def test_a_session_is_named_by_a_header_or_a_field_and_is_no_part_of_the_prompt(path: str) -> None:
    plain, named = body(path), body(path, prompt_cache_key="Grüße")
    assert plain.session == body(path, prompt_cache_key=None).session == 0
    assert named.session and (named.chain, named.root) == (plain.chain, plain.root)
    assert named.session == body(path, session_id="Grüße").session
    assert named.session == named_by(plain, "Grüße".encode(), b"k").session
    assert named.session != body(path, prompt_cache_key="Gruesse").session
    assert named.session != named_by(plain, "Grüße".encode(), b"another deployment").session


@pytest.mark.parametrize("name", [7, 1.5, True, ["a"], {"a": 1}, "\ud800"])
def test_a_name_of_another_kind_is_a_name_all_the_same(name: object) -> None:
    assert body("/v1/chat/completions", session_id=name).session


@given(ids, st.integers(1, 2**64 - 1), st.randoms(use_true_random=False))
def test_only_the_sessions_of_an_engine_that_left_move(numbers: list[int], name: int, order: Random) -> None:
    engines = [engine(n) for n in numbers]
    its = home(name, engines)
    order.shuffle(engines)
    assert home(name, engines) is its
    others = [one for one in engines if one is not its]
    gone = order.choice(others)
    assert home(name, [one for one in engines if one is not gone]) is its
    assert home(name, others) is not its


def test_sessions_are_spread_evenly() -> None:
    engines, rng = [engine(n) for n in range(8)], Random(1)
    homes = [home(rng.getrandbits(64), engines).id for _ in range(8000)]
    assert all(850 < homes.count(n) < 1150 for n in range(8))


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("named", [prompt(session=77), prompt(root=77)])
def test_the_policy_holds_to_a_session_and_to_a_conversation_but_not_against_cost(
    named: Prompt, learned: bool
) -> None:
    policy, rng = session.build(session.Params()), Random(1)
    engines = [engine(n, learned=learned) for n in range(4)]
    its = home(77, engines)
    cached = {one.id: 8000 for one in engines if one is not its}  # the others cost less, by 0.6 s
    if not learned:
        its.pending_bytes, cached = 10_000, {}
    assert policy.choose(named, engines, cached, rng).engine == its.id
    its.pending_bytes = 200_000  # 5 s
    assert policy.choose(named, engines, cached, rng).engine != its.id


def test_prefix_cost_lets_the_session_decide_among_equals_and_no_more() -> None:
    policy = prefix_cost.build(prefix_cost.Params())
    engines = [engine(n) for n in range(4)]
    its = home(77, engines)
    for seed in range(20):
        choice = policy.choose(prompt(session=77), engines, {}, Random(seed))
        assert (choice.engine, choice.propensity) == (its.id, 1.0)
    another = next(one for one in engines if one is not its)
    assert policy.choose(prompt(session=77), engines, {another.id: 2000}, Random(1)).engine == another.id
