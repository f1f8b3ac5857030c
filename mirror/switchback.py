"""One spare engine for all arms: they take turns, and a candidate repeats what the control had before it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import monotonic_ns
from typing import Any

from mirror.admit import Phase
from mirror.arms import Arm
from mirror.pace import Pace
from mirror.pair import Joiner, no_answer
from mirror.readiness import NOT_READY
from mirror.rewrite import Body
from mirror.slots import Block, Held, block_of
from mirror.spec import CONTROL
from mirror.traffic import Traffic

RECORDING = "the recording"  # among the troubles
_LOOK_S = 0.05
_AGAIN_S = 1.0  # after an arm that did not come, or a pause


# Makes an arm be the one that stands: None once it serves, else why it does not.
Bring = Callable[[Arm], Awaitable[str | None]]
# Once all that was to be sent is.
Over = Callable[[], Awaitable[None]]


class Switchback:
    """Runs blocks one after another.

    `phase()` is the analysis's word; `began()` is called when a block's first slot begins, so that only
    conversations that begin in it are taken; `over()` once there is nothing more to send.  `missing()` names
    the arm that stands while it cannot have copies, `failing()` those for which that is a failure of theirs.
    """

    def __init__(
        self,
        arms: Mapping[str, Arm],
        joiner: Joiner,
        bring: Bring,
        traffic: Traffic,
        pace: Pace,
        *,
        phase: Callable[[], Phase],
        began: Callable[[], None],
        missing: Callable[[], list[str]] = list,
        failing: Callable[[], list[str]] = list,
        over: Over | None = None,
    ) -> None:
        self._arms = arms
        self._joiner = joiner
        self._bring = bring
        self._traffic = traffic
        self._pace = pace
        self._phase = phase
        self._began = began
        self._missing = missing
        self._failing = failing
        self._over = over
        self._candidates = [name for name in arms if name != CONTROL]
        self._turns = 0  # blocks in which a candidate was due: whose turn it is
        self._spared = 0  # of these, those that nobody had, for the candidate had left the race
        self._calibrated = 0  # blocks in which the control was due twice
        self._number = 0
        self._disturbed = False
        self._running: Block | None = None
        self.block: Block | None = None
        self.standing: str | None = None  # the arm that serves now
        self._troubles: dict[str, str] = {}  # by arm: why it did not come when it was last due

    async def run(self) -> None:
        """Until all is sent, or it is cancelled."""
        while True:
            phase = self._phase()
            # What the analysis has of blocks before: they go on where a process before this one was.
            self._number = max(self._number, phase.blocks)
            self._turns = max(self._turns, phase.turns)
            self._pass_over(phase)
            if phase.name == "paused" or await self._unknown(phase) is not None:
                await asyncio.sleep(_AGAIN_S)
            elif self._traffic.is_over(self._turns):
                self.standing = None
                if self._over is not None:
                    await self._over()
                return
            else:
                await self._one(phase.name)

    def stop(self, reason: str) -> None:
        """No slot follows: what was to be repeated will not be."""
        if (block := self.block) is not None:
            self._give_up(block, reason)
            self.block = None

    def disturb(self) -> None:
        """A pause: what is under way is given up, and is no whole block."""
        self._disturbed = True

    def let_go(self, id: str) -> None:
        """A copy was dropped: it is not repeated, and not kept for that."""
        if (block := self._running) is not None:
            block.held.pop(id, None)

    def reached(self, phase: Phase) -> Phase:
        """The phase, with as many blocks as there have been by now."""
        return replace(phase, blocks=self._number, turns=self._turns)

    def status(self) -> dict[str, Any]:
        """What is going on, for the status frame."""
        return {
            "standing": self.standing,
            "blocks": self._number,
            "turns": self._turns,
            "spared": self._spared,
            "troubles": dict(self._troubles),
            "replay": self._replay(),
            "over": self._traffic.is_over(self._turns),
        }

    @property
    def replayed(self) -> dict[str, int] | None:
        """Of how many blocks candidates have had how many; None where nothing is replayed, or as yet."""
        whole = self._traffic.whole(self._turns)
        return None if whole is None else {"turns": self._turns, "of": whole.turns}

    def _replay(self) -> dict[str, Any] | None:
        """What is told of a replay: beside what there is, how many requests are sent (to all arms), how late
        the latest of the last slots was, and in how many seconds all will be, as things go now."""
        told, whole = self._traffic.status(), self._traffic.whole(self._turns)
        if told is None or whole is None:
            return told
        phase, running, block = self._phase(), self._running, self.block
        under_way = running.sent if running is not None and running.phase == "live" else 0
        ahead = (self._candidate(turn) for turn in range(self._turns, whole.turns))
        blocks, goes_on = sum(name not in phase.out for name in ahead), phase.name == "live"
        return {
            **told,
            "sends": whole.requests,
            "sent": min(whole.requests, whole.sent + under_way),
            "late_ms": None if block is None else block.late_ns / 1e6,
            "left_s": self._pace.left_s(monotonic_ns(), blocks) if goes_on else None,
        }

    def _pass_over(self, phase: Phase) -> None:
        """The turns of those that left the race are the next one's."""
        if phase.name == "live" and phase.out.issuperset(self._candidates):
            return  # nobody is left: which cannot be
        while phase.name == "live" and self._candidate(self._turns) in phase.out:
            if self._traffic.is_over(self._turns):
                return
            self._turns += 1
            self._spared += 1

    def _candidate(self, turn: int) -> str:
        return self._candidates[turn % len(self._candidates)]

    async def _unknown(self, phase: Phase) -> str | None:
        """Why the next block is not known yet."""
        if self._traffic.moves_on and not phase.epoch:
            return "the analysis has not said yet how much was sent before"
        return self._noted(RECORDING, await self._traffic.known())

    async def _one(self, phase: str) -> None:
        self._pace.begins(monotonic_ns())
        is_calibrating = phase == "calibration"
        slots = block_of(self._turns, self._candidates, calibrating=is_calibrating)
        block = Block(self._number, slots, phase)
        control = self._arms[block.first.arm]
        piece = self._calibrated if is_calibrating else self._turns // max(1, len(self._candidates))
        if not (await self._stands(block.first.arm) and await self._ready(piece, control)):
            await asyncio.sleep(_AGAIN_S)
            return
        self._disturbed = False
        self._began()
        self.block = self._running = block
        self._number += 1
        block.since_ns = monotonic_ns()
        await self._traffic.run(block, lambda: self._disturbed)
        block.until_ns = monotonic_ns()
        await self._quiet(block.first.arm)
        if block.held:
            if await self._stands(block.second.arm):
                await self._again(block)
                await self._quiet(block.second.arm)
            self._give_up(block, NOT_READY)
        elif not self._traffic.moves_on:
            return  # nobody asked anything: there is nothing to repeat
        self._running = None
        self._pace.ends(monotonic_ns())
        if self._disturbed and self._traffic.moves_on:
            return  # the same piece again
        if is_calibrating:
            self._calibrated += 1
        else:
            self._turns += 1

    async def _ready(self, piece: int, control: Arm) -> bool:
        return self._noted(RECORDING, await self._traffic.ready(piece, control)) is None

    def _noted(self, name: str, why: str | None) -> str | None:
        if why is None:
            self._troubles.pop(name, None)
        else:
            self._troubles[name] = why
        return why

    async def _stands(self, name: str) -> bool:
        self.standing = None
        if self._noted(name, await self._bring(self._arms[name])) is not None:
            return False
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
        while block.held:
            id, held = next(iter(block.held.items()))
            wait_s = began_s + held.offset_ns / 1e9 - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if block.held.pop(id, None) is None:
                continue  # it was given up meanwhile
            if held.copy.golden is None:
                block.came(max(0.0, loop.time() - began_s - held.offset_ns / 1e9))
            self._send(block, held)

    def _send(self, block: Block, held: Held) -> None:
        joiner, slot, copy = self._joiner, block.second, held.copy
        if not joiner.is_open(held.id):
            return  # it was dropped meanwhile, and is in the books
        now_ns, key = monotonic_ns(), (slot.arm, slot.twin)
        joiner.note(held.id, {"shifts": {slot.arm: block.shift_ns}})
        if slot.arm in self._missing():
            if slot.arm not in self._failing():
                joiner.lose(held.id, NOT_READY)
                return
            # It stood when its slot began, and went: what it is due now it fails, as the control would have.
            joiner.answered(held.id, no_answer(key, 1, now_ns, now_ns, NOT_READY), now_ns)
            return
        encoded = any(name.lower() == b"content-encoding" for name, _ in copy.headers)
        arm = self._arms[slot.arm]
        body = Body(copy.path, copy.body, encoded=encoded)
        prepared = arm.prepare(copy, body, slot.twin, held.duplicate, slot=block.again_ns)
        joiner.asked(held.id, key, now_ns)

        def done(answer: dict[str, Any]) -> None:
            joiner.answered(held.id, answer, monotonic_ns())

        arm.send(held.id, prepared, 1, grows=joiner.grows, done=done)

    def _give_up(self, block: Block, reason: str) -> None:
        due, block.held = block.held, {}
        for id in due:
            self._joiner.lose(id, reason)
