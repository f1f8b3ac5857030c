"""What holds of one routing decision from look-up to memory."""

import json
from random import Random
from typing import Any

import pytest

from routing.index import PrefixIndex
from routing.policies import prefix_cost
from routing.prompt import read
from routing.router import Router
from routing.types import EngineLoad, Prompt

IDLE = [EngineLoad(n, 0, 0) for n in range(4)]


def ask(*said: str) -> Prompt:
    messages: list[dict[str, Any]] = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(said)
    ]
    return read("/v1/chat/completions", json.dumps({"model": "m", "messages": messages}).encode(), b"k")


def router(seed: int = 1) -> Router:
    return Router(prefix_cost.build(prefix_cost.Params()), PrefixIndex(), Random(seed))


def test_a_conversation_stays_where_it_began() -> None:
    for seed in range(20):
        route = router(seed)
        first = route.choose(ask("x" * 3000), IDLE, 0.0)
        second = route.choose(ask("x" * 3000, "y" * 500, "z"), IDLE, 1.0)
        assert (first.cached_bytes, second.engine) == (0, first.engine)
        assert second.cached_bytes == first.uncached_bytes
        assert second.uncached_bytes < 600


def test_a_burst_sees_the_choice_before_it() -> None:
    route = router()
    assert route.choose(ask("x" * 3000), IDLE, 0.0).cached_bytes == 0
    assert route.choose(ask("x" * 3000), IDLE, 0.0).uncached_bytes == 0


def test_a_lost_engine_is_believed_to_hold_nothing() -> None:
    route = router()
    first = route.choose(ask("x" * 3000), IDLE, 0.0)
    route.engine_lost(first.engine)
    route.engine_lost(77)
    assert route.choose(ask("x" * 3000), IDLE, 1.0).cached_bytes == 0


def test_an_engine_left_out_is_not_chosen_however_much_it_holds() -> None:
    route = router()
    first = route.choose(ask("x" * 3000), IDLE, 0.0)
    others = [engine for engine in IDLE if engine.id != first.engine]
    assert route.choose(ask("x" * 3000), others, 1.0).engine != first.engine


def test_no_engine_is_an_error_and_not_a_choice() -> None:
    with pytest.raises(ValueError, match="no engine"):
        router().choose(ask("x"), [], 0.0)


def test_a_prompt_without_text_is_routed_by_load_alone() -> None:
    engines = [EngineLoad(0, 3, 0), EngineLoad(1, 1, 0)]
    choice = router().choose(ask(), engines, 0.0)
    assert (choice.engine, choice.cached_bytes, choice.uncached_bytes) == (1, 0, 0)
