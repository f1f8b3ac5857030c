"""One run: a trace through a router into a fleet of emulated engines, in virtual time."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import ceil
from random import Random
from time import perf_counter_ns
from typing import Protocol

from bench.routing.asks import Ask, Trace
from bench.routing.engine import Answer, Engine
from bench.routing.setting import Setting


class Chooser(Protocol):
    """Who says where a request goes, and is told what became of it."""

    def choose(self, ask: Ask, now_ns: int, without: frozenset[int]) -> "Sent | None":
        """An engine's number and what is remembered of the choice; None when none is left."""

    def look(self, now_ns: int) -> None:
        """A moment before a choice, to do what is done by the clock."""

    def refused(self, sent: "Sent", now_ns: int) -> None: ...

    def began(self, sent: "Sent", answer: Answer, now_ns: int) -> None: ...

    def ended(self, sent: "Sent", answer: Answer, now_ns: int) -> None: ...


class Sent:
    """A request on its way."""

    __slots__ = ("ask", "engine", "note", "sent_ns")

    def __init__(self, ask: Ask, engine: int, note: object, sent_ns: int) -> None:
        self.ask = ask
        self.engine = engine
        self.note = note
        self.sent_ns = sent_ns


@dataclass(slots=True)
class Outcome:
    """What became of one request.  Seconds of virtual time; `first_s` and `ended_s` -1: refused by all."""

    arrived_s: float
    first_s: float
    ended_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    engine: int


@dataclass(slots=True)
class Run:
    """`outcomes` in order of arrival; until `until_s` talks were opened."""

    outcomes: list[Outcome]
    until_s: float
    decision_ns: list[int]
    setting: Setting


@dataclass(frozen=True, slots=True)
class Plan:
    """Replay `trace`, its opening instants divided by `speed`, until about `asks` requests were measured."""

    trace: Trace
    speed: float
    asks: int
    setting: Setting
    seed: int


Choosers = Callable[[Sequence[Engine]], Chooser]


def run(plan: Plan, chooser: Choosers) -> Run:
    """`chooser` is given the fleet."""
    gc.collect()
    gc.disable()
    try:
        return _World(plan, chooser).run()
    finally:
        gc.enable()


def openings(plan: Plan) -> tuple[list[tuple[float, Ask]], float]:
    """What is sent unasked, with its instants, and the last of these.

    As many talks as would be under way at that speed begin somewhere in their middle, within a turn's time.
    """
    trace, speed = plan.trace, plan.speed
    number = ceil(plan.asks / (1.0 - plan.setting.warm) / trace.turns)
    under_way = round(trace.talk_s * speed)
    asks = trace.opening(under_way + number)
    since_s = asks[under_way - 1].at_s if under_way else 0.0
    rng = Random(f"{plan.seed} under way")
    found = [(rng.random() * trace.talk_s / trace.turns, _somewhere(ask, rng)) for ask in asks[:under_way]]
    found += [((ask.at_s - since_s) / speed, ask) for ask in asks[under_way:]]
    return found, found[-1][0] if number else 0.0


class _World:
    def __init__(self, plan: Plan, chooser: Choosers) -> None:
        setting = self._setting = plan.setting
        self._events: list[tuple[int, int, Engine | None, Ask | None]] = []
        self._order = count()
        self._engines = [
            Engine(setting.params(n), Random(f"{plan.seed} {n}"), self._wake, self._began, self._ended)
            for n in range(setting.engines)
        ]
        self._chooser = chooser(self._engines)
        self._sent: dict[int, tuple[Sent, int]] = {}  # by the answer's id: and its place in the outcomes
        self._outcomes: list[Outcome] = []
        self._decision_ns: list[int] = []
        opening, self._until_s = openings(plan)
        for at_s, ask in opening:
            self._ask(ask, int(at_s * 1e9))

    def run(self) -> Run:
        events = self._events
        while events:
            at_ns, _, engine, ask = heappop(events)
            if engine is None:
                assert ask is not None
                self._arrive(ask, at_ns)
            elif engine.due_ns == at_ns:
                engine.work(at_ns)
        return Run(self._outcomes, self._until_s, self._decision_ns, self._setting)

    def _ask(self, ask: Ask, at_ns: int) -> None:
        heappush(self._events, (at_ns, next(self._order), None, ask))

    def _wake(self, at_ns: int, engine: Engine) -> None:
        heappush(self._events, (at_ns, next(self._order), engine, None))

    def _arrive(self, ask: Ask, now_ns: int) -> None:
        without: frozenset[int] = frozenset()
        outcome = Outcome(now_ns / 1e9, -1.0, -1.0, ask.prompt_tokens, 0, ask.output_tokens, -1)
        place = len(self._outcomes)
        self._outcomes.append(outcome)
        self._chooser.look(now_ns)
        while True:
            began = perf_counter_ns()
            sent = self._chooser.choose(ask, now_ns, without)
            self._decision_ns.append(perf_counter_ns() - began)
            if sent is None:
                return  # refused by all: it is not asked again, nor is what would have followed it
            answer = Answer(ask, now_ns)
            if self._engines[sent.engine].submit(answer, now_ns):
                self._sent[id(answer)] = (sent, place)
                return
            self._chooser.refused(sent, now_ns)
            without |= {sent.engine}

    def _began(self, answer: Answer, now_ns: int) -> None:
        self._chooser.began(self._sent[id(answer)][0], answer, now_ns)

    def _ended(self, answer: Answer, now_ns: int) -> None:
        sent, place = self._sent.pop(id(answer))
        self._chooser.ended(sent, answer, now_ns)
        outcome = self._outcomes[place]
        outcome.first_s, outcome.ended_s = answer.first_ns / 1e9, now_ns / 1e9
        outcome.cached_tokens, outcome.engine = answer.cached_tokens, sent.engine
        for after_s, ask in answer.ask.follow:
            at_ns = now_ns + int(after_s * 1e9)
            if at_ns <= self._until_s * 1e9:
                self._ask(ask, at_ns)


def _somewhere(ask: Ask, rng: Random) -> Ask:
    """One of a talk's asks, down one of its branches."""
    branch = [ask]
    while branch[-1].follow:
        branch.append(rng.choice(branch[-1].follow)[1])
    return rng.choice(branch)
