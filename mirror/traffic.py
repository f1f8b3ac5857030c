"""What comes in the first slot of a block: live traffic for so long, or a piece of a recording."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from mirror.arms import Arm
from mirror.frames import Copy
from mirror.slots import Block
from mirror.spec import MirrorExperiment


@dataclass(frozen=True, slots=True)
class Due:
    """A recorded request, `offset_ns` after its piece begins."""

    offset_ns: int
    copy: Copy


class Recorded(Protocol):
    """A recording, cut into pieces that are as long as a slot; none of them is empty."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many requests each piece has."""

    async def get_ready(self, control: Arm) -> None:
        """Ask the control, which stands, what must be known of it.  ValueError: it does not tell."""

    def piece(self, number: int) -> Sequence[Due]:
        """A piece's requests in order; takes its time.  ValueError: they are more than may be held."""

    def status(self) -> dict[str, Any]:
        """What of the recording is replayed, JSON-able."""


# Reads an experiment's recording; takes its time.  ValueError or OSError: why it cannot be.
Open = Callable[[MirrorExperiment], Recorded]


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a replay sends: blocks, requests to control and candidates, and how many of these are sent."""

    turns: int
    requests: int
    sent: int


class Traffic(Protocol):
    """Where a block's requests come from.  `turns` counts the blocks that a candidate has had.

    `moves_on`: how much was sent before says what comes next, and what could not be sent comes again.
    """

    moves_on: bool

    def is_over(self, turns: int) -> bool:
        """Whether there is no block after so many."""

    async def known(self) -> str | None:
        """Find out how much there is; else why it is not known."""

    async def ready(self, number: int, control: Arm) -> str | None:
        """Get ready for the `number`-th of the blocks whose traffic differs; else why that failed."""

    async def run(self, block: Block, ended: Callable[[], bool]) -> None:
        """Until the first slot is over."""

    def whole(self, turns: int) -> Whole | None:
        """How much there is; None where it has no end, or that is not known yet."""

    def status(self) -> dict[str, Any] | None:
        """What is told of it."""


class Live:
    """Conversations that begin while the slot lasts: workers hand them over."""

    moves_on = False

    def __init__(self, slot_s: float) -> None:
        self._slot_s = slot_s

    def is_over(self, turns: int) -> bool:
        return False

    async def known(self) -> str | None:
        return None

    async def ready(self, number: int, control: Arm) -> str | None:
        return None

    async def run(self, block: Block, ended: Callable[[], bool]) -> None:
        await asyncio.sleep(self._slot_s)

    def whole(self, turns: int) -> Whole | None:
        return None

    def status(self) -> dict[str, Any] | None:
        return None


class Replayed:
    """A recording's pieces, each for every candidate in turn, and all of it `rounds` times.

    `take(copy)` sends a copy, or drops it and counts why.
    """

    moves_on = True

    def __init__(
        self,
        experiment: MirrorExperiment,
        open: Open,
        take: Callable[[Copy], None],
    ) -> None:
        assert experiment.replay is not None
        self._experiment = experiment
        self._open = open
        self._take = take
        self._candidates = len(experiment.arms) - 1
        self._rounds = experiment.replay.rounds
        self._recorded: Recorded | None = None
        self._due: Sequence[Due] = ()

    def is_over(self, turns: int) -> bool:
        whole = self.whole(turns)
        return whole is not None and turns >= whole.turns

    def whole(self, turns: int) -> Whole | None:
        if self._recorded is None:
            return None
        if not self._candidates:
            return Whole(0, 0, 0)
        sizes = self._recorded.sizes
        rounds, rest = divmod(min(turns // self._candidates, self._rounds * len(sizes)), len(sizes))
        # Of the piece that candidates have in turn now, those before have had theirs.
        part = turns % self._candidates * sizes[rest] if rounds < self._rounds else 0
        done = self._candidates * (rounds * sum(sizes) + sum(sizes[:rest])) + part
        return Whole(
            turns=self._rounds * self._candidates * len(sizes),
            requests=2 * self._rounds * self._candidates * sum(sizes),
            sent=2 * done,
        )

    async def known(self) -> str | None:
        if self._recorded is None:
            try:
                self._recorded = await asyncio.to_thread(self._open, self._experiment)
            except (ValueError, OSError) as error:
                return str(error)
        return None

    async def ready(self, number: int, control: Arm) -> str | None:
        recorded = self._recorded
        assert recorded is not None
        try:
            await recorded.get_ready(control)
            self._due = await asyncio.to_thread(recorded.piece, number % len(recorded.sizes))
        except ValueError as error:
            return str(error)
        return None

    async def run(self, block: Block, ended: Callable[[], bool]) -> None:
        """Open loop: each at its instant, whether or not earlier ones are answered."""
        due, self._due = self._due, ()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert block.since_ns is not None
        for one in due:
            wait_s = began_s + one.offset_ns / 1e9 - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if ended():
                return
            block.came(max(0.0, loop.time() - began_s - one.offset_ns / 1e9))
            at_ns = block.since_ns + one.offset_ns
            id = f"{one.copy.id}.{block.number}"
            self._take(msgspec.structs.replace(one.copy, id=id, received_ns=at_ns, sent_ns=at_ns))

    def status(self) -> dict[str, Any] | None:
        if (whole := self.whole(0)) is None or self._recorded is None:
            return {"turns": None}
        return {"turns": whole.turns, **self._recorded.status()}
