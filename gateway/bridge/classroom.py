"""One fleet's part of the school: its engines, what waits to be asked of them, and what its template does."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.bridge.asker import Asker, UnansweredError
from gateway.bridge.frames import Asked, FleetPlace
from routing.bridge.fit import fit
from routing.bridge.probe import Probed, Step, probed, steps

if TYPE_CHECKING:
    from gateway.bridge.school import School

_RETRY_S = 5.0
_QUEUED = 32
_QUICK = 4  # of the probe's steps, that are asked again and again


class Classroom:
    """One fleet."""

    def __init__(self, school: "School", place: FleetPlace) -> None:
        self._school = school
        self.place = place
        self.probed: Probed | None = None
        self._quick = 0
        self._askers: dict[int, Asker] = {}
        self._queues: dict[int, deque[Asked]] = {}
        self._working: set[int] = set()
        self._changed = asyncio.Event()

    def renew(self, place: FleetPlace) -> None:
        """These are its engines now."""
        self.place = place
        there = {engine.id: engine for engine in place.engines}
        for id in [id for id, asker in self._askers.items() if there.get(id) != asker.place]:
            asker = self._askers.pop(id)
            self._queues.pop(id, None)
            self._school.spawn(asker.close(), f"close {asker.place.url}")
        for id, engine in there.items():
            if id not in self._askers:
                self._askers[id] = Asker(engine)
                self._changed.set()

    async def close(self) -> None:
        for asker in self._askers.values():
            await asker.close()

    def ask(self, asked: Asked) -> bool:
        """Queue a question; False when there is no room, or no such engine."""
        queue = self._queues.setdefault(asked.engine, deque())
        if asked.engine not in self._askers or len(queue) >= _QUEUED:
            return False
        queue.append(asked)
        if asked.engine not in self._working:
            self._working.add(asked.engine)
            self._school.spawn(self._work(asked.engine), f"bridge {asked.engine}")
        return True

    async def _work(self, engine: int) -> None:
        """Ask until nothing waits."""
        school = self._school
        try:
            while (queue := self._queues.get(engine)) and (asker := self._askers.get(engine)) is not None:
                asked = queue.popleft()
                fitted = fit(asked.path, asked.body)
                if isinstance(fitted, str):
                    school.counts[fitted] += 1
                    continue
                if self.probed is None or not self.probed.may_learn(fitted.features, fitted.path):
                    school.counts["unprobed" if self.probed is None else "template"] += 1
                    continue
                ids = await asker.ids(fitted)
                if ids:
                    school.learn(self, asked, fitted, ids)
                else:
                    school.counts["no_ids"] += 1
        finally:
            self._working.discard(engine)

    async def probe_on(self, every_s: float) -> None:
        """Probe when engines come, and again and again: the template may write something else one day."""
        while True:
            try:
                found = await self._probe()
            except Exception as error:
                self._school.failed("probe", error)
                found = False
            self._changed.clear()
            wait_s = every_s if found else min(_RETRY_S, every_s)
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _probe(self) -> bool:
        """Ask the first engine that tells; False when none does."""
        asked = steps()
        for asker in list(self._askers.values()):
            if self.probed is None:
                asker.look_again()
            quick = await self._answers(asker, asked[:_QUICK])
            if quick is None:
                continue
            if self.probed is not None and quick.print == self._quick:
                return True
            whole = await self._answers(asker, asked)
            if whole is None:
                continue
            is_new, self._quick, self.probed = self.probed is None, quick.print, whole
            self._school.template(self.place.fleet, whole, is_new=is_new)
            return True
        return False

    async def _answers(self, asker: Asker, asked: Sequence[Step]) -> Probed | None:
        """What an engine's answers say.

        One that is missing is no refusal: that would be another template, and all that was learned forgotten.
        """
        known: dict[str, list[int] | None] = {}

        async def ids(body: dict[str, Any]) -> list[int] | None:
            key = repr(body)
            if key not in known:
                known[key] = await asker.chat_ids(body, self.place.model)
            return known[key]

        try:
            if await ids(asked[0].before) is None:
                return None
            return probed(asked, [(await ids(one.before), await ids(one.after)) for one in asked])
        except UnansweredError:
            return None
