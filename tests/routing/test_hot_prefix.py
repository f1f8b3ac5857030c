"""A prefix that everybody shares spreads, and a busy engine stops nobody's prefix routing (H28).

The simulated engines compute one prompt after another at their own rate, which is not the policy's parameter,
and decode side by side. They start without load and with empty caches; time is a number.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random

import pytest

from routing.index import PrefixIndex
from routing.policies import least_load, prefix_cost
from routing.policy import Policy
from routing.prompt import read
from routing.router import Router
from routing.types import Choice, EngineLoad, Prompt

KEY = b"k"
BEGINNING_BYTES = 32_000  # 8,000 tokens


def chat(*said: str) -> Prompt:
    roles = ["system", *["user", "assistant"] * len(said)]
    messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
    return read("/v1/chat/completions", json.dumps({"model": "m", "messages": messages}).encode(), KEY)


def beginning(n: int) -> str:
    return f"These are the rules of house {n}. ".ljust(BEGINNING_BYTES, ".")


@dataclass
class Fleet:
    """Four engines behind a router; `foreign` is load that did not come through it."""

    policy: Policy
    prefill_bytes_per_s: float = 100_000.0
    decode_s: float = 5.0
    foreign: dict[int, int] = field(default_factory=dict)
    now_s: float = 0.0
    inflight: Counter[int] = field(default_factory=Counter)
    pending: Counter[int] = field(default_factory=Counter)
    free_at_s: dict[int, float] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.router = Router(self.policy, PrefixIndex(4_000_000), Random(1))
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._answers = Random(2)  # their lengths

    def send(self, prompt: Prompt, ended: Callable[[], None] = lambda: None) -> Choice:
        loads = [EngineLoad(n, self.inflight[n] + self.foreign.get(n, 0), self.pending[n]) for n in range(4)]
        choice = self.router.choose(prompt, loads, self.now_s)
        engine, work = choice.engine, choice.uncached_bytes
        self.choices.append(choice)
        self.inflight[engine] += 1
        self.pending[engine] += work
        first_token_s = max(self.now_s, self.free_at_s.get(engine, 0.0)) + work / self.prefill_bytes_per_s
        self.free_at_s[engine] = first_token_s

        def began() -> None:
            self.pending[engine] -= work

        def finished() -> None:
            self.inflight[engine] -= 1
            ended()

        self._at(first_token_s, began)
        self._at(first_token_s + self.decode_s * self._answers.uniform(0.2, 1.8), finished)
        return choice

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        self._at(self.now_s + seconds, happen)

    def run(self, requests: int) -> None:
        while self._events and len(self.choices) < requests:
            self.now_s, _, happen = heappop(self._events)
            happen()

    def busiest_over_mean(self) -> float:
        load = [sum(choice.engine == n for choice in self.choices) + self.foreign.get(n, 0) for n in range(4)]
        return max(load) / (sum(load) / 4)

    def cached_share(self) -> float:
        cached = sum(choice.cached_bytes for choice in self.choices)
        return cached / (cached + sum(choice.uncached_bytes for choice in self.choices))

    def _at(self, at_s: float, happen: Callable[[], None]) -> None:
        heappush(self._events, (at_s, next(self._order), happen))


def costed() -> Policy:
    return prefix_cost.build(prefix_cost.Params())


def test_hot_prefix_of_a_burst_spreads_over_all_engines() -> None:
    fleet = Fleet(costed())
    for n in range(200):
        fleet.send(chat(beginning(0), f"Question {n}?"))
    assert fleet.busiest_over_mean() < 1.5
    assert fleet.cached_share() > 0.97, "computed once an engine, not once a request"


@pytest.mark.parametrize("prefill_bytes_per_s", [10_000.0, 100_000.0, 1_000_000.0])
def test_hot_prefix_stays_spread_while_200_users_go_on_asking(prefill_bytes_per_s: float) -> None:
    fleet = Fleet(costed(), prefill_bytes_per_s)

    def ask() -> None:
        fleet.send(chat(beginning(0), f"Question {len(fleet.choices)}?"), ask)

    for _ in range(200):
        ask()
    fleet.run(2000)
    assert fleet.busiest_over_mean() < 1.5
    assert max(fleet.inflight.values()) < 1.5 * sum(fleet.inflight.values()) / 4
    assert fleet.cached_share() > 0.99


def test_hot_prefix_trickling_in_spreads_once_the_holder_fills() -> None:
    fleet = Fleet(costed(), prefill_bytes_per_s=1e9, decode_s=1e9)
    for n in range(200):
        fleet.send(chat(beginning(0), f"Question {n}?"))
        fleet.pending.clear()  # each had its first token before the next one came
    assert fleet.busiest_over_mean() < 1.5
    assert fleet.cached_share() > 0.97


def test_hot_prefix_routing_goes_on_for_the_rest_when_one_engine_is_busy() -> None:
    fleet = Fleet(costed(), foreign={0: 60})
    for n in range(200):
        fleet.send(chat(beginning(n % 20), f"Question {n}?"))
    assert fleet.busiest_over_mean() < 1.5
    ours = Counter(choice.engine for choice in fleet.choices)
    assert max(ours.values()) < 1.5 * 200 / 4
    by_load = Fleet(least_load.build(least_load.Params()), foreign={0: 60})
    for n in range(200):
        by_load.send(chat(beginning(n % 20), f"Question {n}?"))
    assert fleet.cached_share() > by_load.cached_share()
    assert fleet.cached_share() > 0.8


def converse(policy: Policy) -> tuple[Fleet, float]:
    """40 users with long first words and one shared beginning of 2 KB; each talks for 9 turns.

    The second result: of the turns after the first, the share answered where the turn before was.
    """
    fleet, served, thinks = Fleet(policy), dict[int, list[int]](), Random(3)

    def talk(user: int, said: tuple[str, ...]) -> None:
        if len(said) > 20:
            return
        answer = f"Answer {len(said)} to {user}. ".ljust(1500, "-")
        question = f"Question {len(said)}?"
        again = partial(talk, user, (*said, question, answer))
        choice = fleet.send(chat(*said, question), lambda: fleet.after(thinks.uniform(0, 10), again))
        served.setdefault(user, []).append(choice.engine)

    for user in range(40):
        talk(user, ("Shared rules. ".ljust(2000, "."), f"I am {user}. ".ljust(12_000, "."), "Noted."))
    fleet.run(360)
    turns = [pair for engines in served.values() for pair in pairwise(engines)]
    assert len(turns) == 320
    return fleet, sum(before == after for before, after in turns) / len(turns)


def test_hot_prefix_or_not_conversations_stay_with_their_engine() -> None:
    fleet, stayed = converse(costed())
    by_load, stayed_by_load = converse(least_load.build(least_load.Params()))
    assert stayed > 0.9 > 0.5 > stayed_by_load
    assert fleet.cached_share() > by_load.cached_share()
    assert fleet.busiest_over_mean() < 1.5
