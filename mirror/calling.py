"""How does a launched engine come to stand where only one can?  It is called for, and waited for."""

import asyncio
from collections.abc import Callable

from mirror.arms import Arm
from mirror.readiness import GIVEN_UP, Readiness
from mirror.spec import SlotSpec
from mirror.stand import Stand

# Tells whose turn it is (None: nobody's any more); False when that cannot be taken now.
Call = Callable[[str, str | None], bool]

_LOOK_S = 0.1


class Calling:
    """Has one experiment's launched engines started and ended, so that one at a time is there.

    Who launches ends the one that stands before it starts the other.  An arm that is not launched is there.
    """

    def __init__(self, experiment: str, slots: SlotSpec, readiness: Readiness, call: Call) -> None:
        self._experiment = experiment
        self._ready_s = slots.ready_s
        self._stand = Stand((), slots.ready_s)
        self._readiness = readiness
        self._call = call

    async def bring(self, arm: Arm) -> str | None:
        """None once the arm is ready for copies; else why not: given up, or not ready within the time."""
        name, spec = self._experiment, arm.spec
        try:
            async with asyncio.timeout(self._ready_s):
                await self._say(spec.name)
                while not self._readiness.is_ready(name, spec):
                    fares = self._readiness.fares(name, spec)
                    if fares.state == GIVEN_UP:
                        return f"given up: {fares.why}"
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            fares = self._readiness.fares(name, spec)
            why = "" if fares.why is None else f", {fares.why}"
            return f"not ready after {self._ready_s:g} s: {fares.state}{why}"
        return None if spec.mark else await self._stand.bring(arm)

    async def over(self) -> None:
        """Nobody's turn any more: the engine that stands is ended, and its GPU is free."""
        await self._say(None)

    async def _say(self, name: str | None) -> None:
        while not self._call(self._experiment, name):  # noqa: ASYNC110 - the supervisor reads within moments
            await asyncio.sleep(_LOOK_S)
