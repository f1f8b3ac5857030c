"""Who of a fleet does what, by the engines' roles and by what they turn out to be."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from gateway.fleets.fleet import Engine, Fleet
from gateway.spec import EngineSpec, FleetSpec, SplitSpec
from gateway.split.roles import Roles
from routing.handed import Handed
from routing.index import PrefixIndex
from routing.policies import least_load, prefix_cost
from routing.precise import Precise
from routing.prompt import read
from routing.router import Router
from routing.types import EngineLoad, Prompt
from tests.routing.events.memory import Memory

P, D, B = "prefill", "decode", "both"


def made(roles: Sequence[str], style: str = "vllm", kinds: Sequence[str] = (), min_bytes: int = 0) -> Fleet:
    engines = [
        Engine(EngineSpec(id, f"http://e{id}", kind=kinds[id] if kinds else "auto", role=role))
        for id, role in enumerate(roles)
    ]
    policy, index = least_load.build(least_load.Params()), PrefixIndex()
    spec = FleetSpec("m", ("m",), True, (), split=SplitSpec(style, min_bytes))
    fleet = Fleet(spec, engines, Router(policy, index, Random(1)))
    for engine in engines:
        engine.fleet = fleet
    assert spec.split is not None
    fleet.split = Roles(fleet, spec.split, Router(Handed(policy), index, Random(1)), index)
    return fleet


def sides(fleet: Fleet) -> tuple[list[int], list[int], list[int]]:
    assert fleet.split is not None
    found = (fleet.split.prefill, fleet.split.decode, fleet.split.whole)
    prefill, decode, whole = ([engine.id for engine in side.engines] for side in found)
    return prefill, decode, whole


SIDES: dict[str, tuple[list[str], str, tuple[list[int], list[int], list[int]]]] = {
    "a pair": ([P, D], "vllm", ([0], [1], [1])),
    "with one that does both": ([P, D, B], "vllm", ([0, 2], [1, 2], [1, 2])),
    "only one that does both prefills": ([D, B], "vllm", ([1], [0, 1], [0, 1])),
    "SGLang's": ([P, D, P], "sglang", ([0, 2], [1], [1])),
    "SGLang's with one that does both": ([P, D, B], "sglang", ([0], [1], [2])),
}


@pytest.mark.parametrize("name", SIDES)
def test_sides_are_by_role_and_by_what_an_engine_without_one_can_do(name: str) -> None:
    roles, style, wanted = SIDES[name]
    assert sides(made(roles, style)) == wanted


def test_the_way_is_open_until_an_engine_was_heard_and_then_settled() -> None:
    fleet = made([P, D, B], "auto")
    assert fleet.split is not None
    assert fleet.split.style == ""
    fleet.engines[1].kind = "sglang"
    assert fleet.split.style == "sglang"
    assert sides(fleet) == ([0], [1], [2])
    fleet.engines[0].kind = "vllm"
    assert fleet.split.style == "sglang"


@pytest.mark.parametrize(
    ("kinds", "style"), [(("openai", "openai"), "vllm"), (("vllm", "auto"), "vllm"), (("openai", "auto"), "")]
)
def test_engines_that_only_say_openai_are_taken_for_vllm(kinds: Sequence[str], style: str) -> None:
    fleet = made([P, D], "auto", kinds)
    assert fleet.split is not None
    assert fleet.split.style == style


def test_engines_that_come_and_go_come_and_go_on_their_side() -> None:
    fleet = made([P, D])
    assert fleet.split is not None
    assert set(fleet.split.decode.ready().by_id) == {1}
    more = Engine(EngineSpec(2, "http://e2", role=D))
    more.fleet = fleet
    fleet.engines = (*fleet.engines, more)
    assert set(fleet.split.decode.ready().by_id) == {1, 2}
    more.up = False
    assert set(fleet.split.decode.ready().by_id) == {1}
    assert [load.id for load in fleet.split.decode.loads] == [1]


def test_sides_and_fleet_know_the_same_of_who_is_busy() -> None:
    fleet = made([P, D])
    assert fleet.split is not None
    fleet.ready().busy.add(1)
    assert 1 in fleet.split.decode.ready().busy


OTHERS: dict[str, tuple[list[str], str, tuple[int, ...], bool]] = {
    "who decodes can compute the prompt": ([P, D], "vllm", (0,), True),
    "nobody decodes": ([P, D], "vllm", (1,), False),
    "another decodes": ([P, D, D], "vllm", (1,), True),
    "SGLang's need a pair": ([P, D], "sglang", (0,), False),
    "another pair": ([P, D, P], "sglang", (0,), True),
    "one that does both": ([P, D, B], "sglang", (0, 1), True),
    "nobody": ([P, D, B], "sglang", (0, 1, 2), False),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_request_may_be_sent_again_where_others_can_serve_it(name: str) -> None:
    roles, style, tried, may = OTHERS[name]
    assert made(roles, style).has_other(tried) is may


def test_those_who_prefill_are_learned_of_apart_from_those_who_decode() -> None:
    fleet = made([P, D, B, P])
    assert fleet.split is not None
    assert [[engine.id for engine in engines] for engines in fleet.split.kinds] == [[0, 3], [1, 2]]


def prompt(*ends: int) -> Prompt:
    return Prompt("m", [end * 7 for end in ends], list(ends), 0, 0, stream=False, max_tokens=None)


def test_short_is_what_an_engine_that_decodes_would_have_to_compute() -> None:
    fleet = made([P, D, D], min_bytes=500)
    assert fleet.split is not None
    split = fleet.split
    assert split.is_short(prompt(100, 499))
    assert not split.is_short(prompt(100, 500))
    held = prompt(2000)
    split.decode.router.choose(held, [EngineLoad(2, 0, 0)], 1.0)
    assert split.is_short(prompt(2000, 2400))
    assert not split.is_short(prompt(2000, 2600))
    fleet.engines[2].up = False
    assert not split.is_short(prompt(2000, 2400))
    split.prefill.router.choose(
        held, [EngineLoad(0, 0, 0)], 1.0
    )  # what is held where it is computed is no help
    assert not split.is_short(prompt(2000, 2400))


def test_the_next_step_of_an_open_loop_is_as_short_as_what_is_new_in_it() -> None:
    """What was sent is remembered by the names that an open loop's links have."""
    fleet = made([P, D], min_bytes=2000)
    assert fleet.split is not None
    precise = Precise(Memory().reader())
    precise.renew(0, are_loops_apart=True)
    fleet.router.know(precise)
    sent, step = loop(steps=4), loop(steps=5)
    assert sent.ends[-1] > 2000 > step.ends[-1] - sent.ends[-1]
    fleet.split.whole.router.choose(sent, [EngineLoad(1, 0, 0)], 1.0)
    assert fleet.split.is_short(step)
    assert not fleet.split.is_short(loop(steps=4, question="And the other one?"))


def loop(steps: int, question: str = "Is it free?") -> Prompt:
    """A question, and steps with thinking and a tool; each is a kilobyte."""
    said: list[dict[str, Any]] = [{"role": "user", "content": question}]
    for at in range(steps):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "berth", "arguments": "{}"}}
        said.append({"role": "assistant", "reasoning_content": "hm " * 200, "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": f"c{at}", "content": "yes " * 100})
    return read("/v1/chat/completions", json.dumps({"model": "m", "messages": said}).encode(), b"key")


def test_whoever_decodes_is_taken_to_hold_the_prompt() -> None:
    fleet = made([P, D])
    assert fleet.split is not None
    choice = fleet.split.decode.router.choose(prompt(300, 900), [EngineLoad(1, 2, 50)], 1.0)
    assert (choice.engine, choice.cached_bytes, choice.uncached_bytes) == (1, 900, 0)


def test_the_choice_of_who_decodes_can_be_explained_whatever_chooses() -> None:
    fleet = made([P, D])
    assert fleet.split is not None
    engines = [EngineLoad(1, 2, 50)]
    choice = fleet.split.decode.router.choose(prompt(300), engines, 1.0, explain=True)
    assert choice.costs == {}  # least_load reckons nothing
    by_cost = Router(Handed(prefix_cost.build(prefix_cost.Params())), PrefixIndex(), Random(1))
    assert (by_cost.choose(prompt(300), engines, 1.0, explain=True).costs or {}).keys() == {1}
