"""Policies that are asked and not obeyed: what is told of them is what they would have done."""

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from routing.index import PrefixIndex
from routing.policies import least_load, prefix_cost, round_robin
from routing.policy import chosen
from routing.router import Router
from routing.shadow import Shadow
from routing.types import Choice, EngineLoad, Prompt


class Always:
    """A policy that names one engine."""

    def __init__(self, engine: int) -> None:
        self.engine = engine

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        return chosen(next(one for one in engines if one.id == self.engine), prompt, cached, "always")


class Broken:
    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        raise ZeroDivisionError


class ByLot:
    """Engine 0 three times in four, and it says so."""

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        first = rng.random() < 0.75
        choice = chosen(engines[0 if first else 1], prompt, cached, "by lot")
        choice.propensity = 0.75 if first else 0.25
        return choice


def prompt(n: int) -> Prompt:
    return Prompt("m", (7, n + 100), (4000, 5000), 1, 0, True, None)


def test_held_and_loads_are_those_of_the_engines_that_were_named() -> None:
    shadow = Shadow({"zero": Always(0), "one": Always(1)}, Random(1))
    router = Router(Always(0), PrefixIndex(), Random(1))
    engines = [EngineLoad(0, 3, 10), EngineLoad(1, 5, 20)]
    router.choose(prompt(0), engines, 0.0)  # engine 0 holds the beginning
    choice = router.choose(prompt(1), engines, 1.0, shadow=shadow)
    assert (choice.engine, choice.agreeing, choice.costs) == (0, ("zero",), None)
    scores = shadow.taken()
    zero, one = scores["zero"], scores["one"]
    assert (zero.requests, zero.agreed, zero.prompt_bytes, zero.cached_bytes) == (1, 1, 5000, 4000)
    assert (one.requests, one.agreed, one.prompt_bytes, one.cached_bytes) == (1, 0, 5000, 0)
    assert (zero.inflight, one.inflight, one.pending_bytes) == (3, 5, 20)
    assert shadow.taken()["zero"].requests == 0


def test_nobody_that_is_only_asked_decides_or_fails_a_request() -> None:
    def choices(shadow: Shadow | None) -> list[int]:
        router = Router(prefix_cost.build(prefix_cost.Params()), PrefixIndex(), Random(5))
        engines = [EngineLoad(n, 0, 0) for n in range(4)]
        return [router.choose(prompt(n % 3), engines, float(n), shadow=shadow).engine for n in range(50)]

    others = {"broken": Broken(), "least_load": least_load.build(least_load.Params())}
    shadow = Shadow({**others, "round_robin": round_robin.build(round_robin.Params())}, Random(2))
    assert choices(shadow) == choices(None)
    assert shadow.failed == 50
    assert [score.requests for score in shadow.taken().values()] == [0, 50, 50]


def test_outcomes_are_weighed_so_that_they_tell_what_the_other_would_have_had() -> None:
    """Engine 0 answers in 1 s and engine 1 in 3 s; who always takes one of them would have had that."""
    shadow = Shadow({"zero": Always(0), "one": Always(1), "lot": ByLot()}, Random(1))
    router, engines = Router(ByLot(), PrefixIndex(), Random(3)), [EngineLoad(0, 0, 0), EngineLoad(1, 0, 0)]
    took = {0: 1.0, 1: 3.0}
    for n in range(4000):
        choice = router.choose(prompt(n), engines, float(n), shadow=shadow)
        shadow.came(choice, took[choice.engine], 100, 80 if choice.engine else 20)
    scores = shadow.taken()
    for name, first_s, share in (("zero", 1.0, 0.2), ("one", 3.0, 0.8)):
        score = scores[name]
        assert score.outcomes_weighed == pytest.approx(4000, rel=0.1), "as if it had been obeyed each time"
        assert score.first_ms_weighed / score.outcomes_weighed == pytest.approx(1e3 * first_s)
        assert score.cached_tokens_weighed / score.prompt_tokens_weighed == pytest.approx(share)
    worth = {name: score.outcomes_weighed**2 / score.squared for name, score in scores.items()}
    assert worth["one"] == pytest.approx(1000, rel=0.1) and worth["zero"] == pytest.approx(3000, rel=0.1)
