"""All arms are sent a copy at one moment, and what follows upon the control's answer likewise.

The loop's clock stands meanwhile: whatever is sent to one arm later than to another is never sent.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from mirror import forced
from mirror.admit import Phase
from mirror.spec import ArmSpec
from tests.mirror.forcible import forcible
from tests.mirror.scripted import Engine, Request, Script, engine, tokens
from tests.mirror.staging import experiment, until
from tests.mirror.test_pause import comparison, copy
from tests.standing import run, standing

ARMS = ("control", "c1", "c2")


class Arms:
    """Engines of which one can wait until all have been asked."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._came = asyncio.Event()
        self.engines: list[Engine] = []

    async def start(self, stack: AsyncExitStack) -> tuple[ArmSpec, ...]:
        async def noted(request: Request, writer: asyncio.StreamWriter) -> None:
            self._came.set()
            await self._script(request, writer)

        self.engines = [await stack.enter_async_context(engine(noted)) for _ in ARMS]
        return tuple(ArmSpec(name, one.url) for name, one in zip(ARMS, self.engines, strict=True))

    async def all(self, holds: Callable[[Engine], bool]) -> None:
        """Wait for a request to make this hold of each engine, however long that takes."""
        while not all(map(holds, self.engines)):
            self._came.clear()
            await self._came.wait()


@pytest.mark.parametrize("connected", [False, True])
def test_no_time_passes_between_the_first_arm_and_the_last(connected: bool) -> None:
    async def test() -> None:
        async with AsyncExitStack() as stack:
            arms = Arms(tokens)
            one = comparison(experiment(*await arms.start(stack)), [])
            if connected:
                one.take(copy("before"))
                await until(lambda: not one.joiner.inflight)
            with standing():
                one.take(copy("a", 4))
                await arms.all(lambda engine: any(b"hello 4" in each.body for each in engine.requests))
            one.close()

    run(test())


def test_nor_where_all_arms_are_to_decode_what_the_control_said() -> None:
    def forced_of(engine: Engine) -> list[Request]:
        return [each for each in engine.requests if forced.PATH.encode() in each.line]

    async def test() -> None:
        async with AsyncExitStack() as stack:
            arms = Arms(forcible())
            one = comparison(experiment(*await arms.start(stack)), [])
            one.phase = Phase("forced", 1)
            sequel = one._sequels.now
            assert sequel is not None
            await until(lambda: sequel.ready)
            probes = [len(forced_of(engine)) for engine in arms.engines]
            with standing():
                one.take(copy("a", 4))
                await arms.all(lambda engine: len(forced_of(engine)) > 1)
            assert probes == [1, 1, 1]
            one.close()

    run(test())
