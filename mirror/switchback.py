"""One spare engine for all arms: they take turns, and a candidate repeats what the control had before it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic_ns
from typing import Any

from mirror.arms import Arm
from mirror.pair import Joiner
from mirror.rewrite import Body
from mirror.slots import Block, Held, block_of
from mirror.spec import CONTROL

ARM_NOT_READY = "arm_not_ready"
_LOOK_S = 0.05
_AGAIN_S = 1.0  # after an arm that did not come, or a pause


# Makes an arm be the one that stands: None once it serves, else why it does not.
Bring = Callable[[Arm], Awaitable[str | None]]


class Switchback:
    """Runs blocks one after another.

    `phase()` is the analysis's word; `began()` is called when a block's first slot begins, so that only
    conversations that begin in it are taken.
    """

    def __init__(
        self,
        arms: Mapping[str, Arm],
        joiner: Joiner,
        bring: Bring,
        *,
        slot_s: float,
        phase: Callable[[], str],
        began: Callable[[], None],
    ) -> None:
        self._arms = arms
        self._joiner = joiner
        self._bring = bring
        self._slot_s = slot_s
        self._phase = phase
        self._began = began
        self._candidates = [name for name in arms if name != CONTROL]
        self._tried = 0  # blocks in which a candidate was due: whose turn it is
        self._number = 0
        self.block: Block | None = None
        self.standing: str | None = None  # the arm that serves now
        self._troubles: dict[str, str] = {}  # by arm: why it did not come when it was last due

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if self._phase() == "paused":
                await asyncio.sleep(_AGAIN_S)
                continue
            await self._one()

    def stop(self, reason: str) -> None:
        """No slot follows: what was to be repeated will not be."""
        if (block := self.block) is not None:
            self._give_up(block, reason)
            self.block = None

    def status(self) -> dict[str, Any]:
        """What is going on, for the status frame."""
        return {"standing": self.standing, "blocks": self._number, "troubles": dict(self._troubles)}

    async def _one(self) -> None:
        phase = self._phase()
        slots = block_of(self._tried, self._candidates, calibrating=phase == "calibration")
        block = Block(self._number, slots, phase)
        if not await self._stands(block.first.arm):
            await asyncio.sleep(_AGAIN_S)
            return
        self._began()
        self.block = block
        block.since_ns = monotonic_ns()
        await asyncio.sleep(self._slot_s)
        block.until_ns = monotonic_ns()
        await self._quiet(block.first.arm)
        if not block.held:
            return  # nobody asked anything: there is nothing to repeat
        self._number += 1
        if block.second.arm != CONTROL:
            self._tried += 1
        if await self._stands(block.second.arm):
            await self._again(block)
            await self._quiet(block.second.arm)
        self._give_up(block, ARM_NOT_READY)

    async def _stands(self, name: str) -> bool:
        self.standing = None
        why = await self._bring(self._arms[name])
        if why is not None:
            self._troubles[name] = why
            return False
        self._troubles.pop(name, None)
        self.standing = name
        return True

    async def _quiet(self, name: str) -> None:
        """Wait until what the arm was asked is answered; its own timeouts bound that."""
        while self._arms[name].reading:  # noqa: ASYNC110 - once a slot
            await asyncio.sleep(_LOOK_S)

    async def _again(self, block: Block) -> None:
        """Send what the first slot was sent, at the same distances."""
        loop = asyncio.get_running_loop()
        block.again_ns = monotonic_ns()
        began_s = loop.time()
        due, block.held = block.held, []
        for place, held in enumerate(due):
            wait_s = began_s + held.offset_ns / 1e9 - loop.time()
            if wait_s > 0:
                block.held = due[place:]  # a stop meanwhile gives these up
                await asyncio.sleep(wait_s)
            block.held = due[place + 1 :]
            self._send(block, held)

    def _send(self, block: Block, held: Held) -> None:
        joiner, slot, copy = self._joiner, block.second, held.copy
        if not joiner.is_open(held.id):
            return  # it was dropped meanwhile, and is in the books
        encoded = any(name.lower() == b"content-encoding" for name, _ in copy.headers)
        arm = self._arms[slot.arm]
        body = Body(copy.path, copy.body, encoded=encoded)
        prepared = arm.prepare(copy, body, slot.twin, held.duplicate, slot=2 * block.number + 1)
        joiner.note(held.id, {"shifts": {slot.arm: block.shift_ns}})

        def done(answer: dict[str, Any]) -> None:
            joiner.answered(held.id, answer, monotonic_ns())

        arm.send(prepared, 1, done)

    def _give_up(self, block: Block, reason: str) -> None:
        due, block.held = block.held, []
        for held in due:
            self._joiner.lose(held.id, reason)
