"""Which of a worker's fleets are learned of, from whom, and how well?"""

import asyncio
from collections.abc import Iterable, MutableMapping
from time import monotonic_ns

from gateway.bridge.frames import SOCKET, EnginePlace, FleetPlace, Fleets, Learned, Template
from gateway.bridge.lessons import Lessons
from gateway.bridge.link import BridgeLink
from gateway.bridge.told import BOUNDS
from gateway.fleets.fleet import Fleet
from routing.bridge.novelty import Budget
from routing.events.decode import TIERS
from routing.events.known import KnownBlocks
from routing.precise import Precise
from routing.router import Router

Counts = MutableMapping[tuple[str, ...], int]


class Studies:
    """A worker's part in learning.  `known` is what engines say they hold; `workers` share the budget."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run_dir: str, known: KnownBlocks, counts: Counts, workers: int
    ) -> None:
        self._known = known
        self._counts = counts
        self._workers = workers
        self._lessons: dict[str, Lessons] = {}
        self._told: dict[str, Router] = {}  # which router of a fleet knows what engines hold
        self.link = BridgeLink(loop, f"{run_dir}/{SOCKET}", self._heard, counts)

    def renew(self, fleets: Iterable[Fleet]) -> None:
        """These are the fleets now; one that stays keeps what was learned of it."""
        places: list[FleetPlace] = []
        here: set[str] = set()
        for fleet in fleets:
            spec = fleet.spec
            if spec.learn is None or spec.events is None:
                fleet.lessons = None
                if self._told.pop(fleet.name, None) is not None:
                    fleet.router.know(None)
                continue
            here.add(fleet.name)
            rate = spec.learn.bytes_per_s * max(1, len(spec.engines)) / self._workers
            budget = Budget(rate, monotonic_ns() / 1e9)
            lessons = self._lessons.get(fleet.name)
            if lessons is None:
                precise = Precise(self._known)
                lessons = self._lessons[fleet.name] = Lessons(
                    fleet.name, precise, self.link.tell, budget, self._counts
                )
            lessons.precise.keep({engine.id for engine in spec.engines})
            learn = spec.learn
            lessons.settle(budget, asks=learn.tokenize, copies=learn.copies, production=learn.production)
            fleet.lessons = lessons
            if self._told.get(fleet.name) is not fleet.router:
                fleet.router.know(lessons)
                self._told[fleet.name] = fleet.router
            engines = tuple(
                EnginePlace(one.id, one.url, one.api_key, one.model, one.tls) for one in spec.engines
            )
            places.append(FleetPlace(fleet.name, spec.model, spec.learn.loras, engines))
        for name in self._lessons.keys() - here:
            del self._lessons[name]
            self._told.pop(name, None)
        self.link.renew(Fleets(tuple(places)))

    def look(self) -> None:
        """See what engines publish now; about once a second."""
        for lessons in self._lessons.values():
            lessons.precise.look()

    def report(self, counts: Counts, gauges: MutableMapping[tuple[str, ...], float]) -> None:
        """Add how much was learned and how well it foretells to what `WorkerMetrics.flush` takes."""
        for name, lessons in self._lessons.items():
            precise, accuracy = lessons.precise, lessons.precise.accuracy
            for bound, n in zip(BOUNDS, accuracy.buckets, strict=True):
                counts["foretold_error", name, bound] = n
            counts["foretold_tokens", name] = accuracy.predicted_tokens
            counts["found_tokens", name] = accuracy.found_tokens
            for tier, tokens in zip(TIERS[1:], precise.below_tokens, strict=True):
                counts["foretold_below_tokens", name, tier] = tokens
            counts["found_below_tokens", name] = precise.below_found
            counts["foretold_unknown", name] = precise.unlearned
            counts["learned_mismatched", name] = accuracy.mismatched
            bridges = precise.bridges.values()
            counts["learned_prompts", name] = max((one.learned for one in bridges), default=0)
            counts["learned_anew", name] = sum(one.epoch for one in bridges)
            gauges["learned_links", name] = sum(len(one) for one in bridges)
            gauges["foretold_trusted", name] = float(accuracy.is_trusted and not precise.is_restless)

    def _heard(self, told: Learned | Template) -> None:
        lessons = self._lessons.get(told.fleet)
        if lessons is not None:
            lessons.heard(told)
