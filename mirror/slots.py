"""Which arm stands in which slot of time, where there is room for one at a time?

A block is a slot of live traffic at the control and, after it, the same requests at the same distances once
more: at a candidate, or while calibrating at the control.  So slots alternate control, C1, control, C2, …,
and both answers to one request make a pair as if they had stood side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mirror.frames import Copy
from mirror.spec import CONTROL

BETWEEN_SLOTS = "between_slots"


@dataclass(frozen=True, slots=True)
class Slot:
    """One arm for a time, and which of its answers to a request its own are."""

    arm: str
    twin: int = 0


def block_of(number: int, candidates: Sequence[str], *, calibrating: bool) -> tuple[Slot, Slot]:
    """The two slots of the block of this number."""
    if calibrating or not candidates:
        return Slot(CONTROL), Slot(CONTROL, 1)
    return Slot(CONTROL), Slot(candidates[number % len(candidates)])


@dataclass(frozen=True, slots=True)
class Held:
    """A copy that a block's first slot had, `offset_ns` after its beginning, and that its second is due."""

    offset_ns: int
    id: str
    copy: Copy
    duplicate: int


class Block:
    """The block that runs: what it has to repeat."""

    def __init__(self, number: int, slots: tuple[Slot, Slot], phase: str) -> None:
        self.number = number
        self.first, self.second = slots
        self.phase = phase
        self.since_ns: int | None = None  # when its first slot began
        self.until_ns: int | None = None  # when it was shut
        self.again_ns: int | None = None  # when its second slot began
        self.held: dict[str, Held] = {}  # by id, in order
        self.sent = 0  # requests of a recording whose turn has come, in both slots
        self.late_ns = 0  # by how much the latest of them came after its instant

    @property
    def is_open(self) -> bool:
        """Whether copies are taken: its first slot runs."""
        return self.since_ns is not None and self.until_ns is None

    def came(self, late_s: float) -> None:
        """A request is sent, so long after it was due."""
        self.sent += 1
        self.late_ns = max(self.late_ns, round(late_s * 1e9))

    def hold(self, now_ns: int, id: str, copy: Copy, duplicate: int) -> None:
        """A copy was sent just now."""
        assert self.since_ns is not None
        self.held[id] = Held(now_ns - self.since_ns, id, copy, duplicate)

    @property
    def shift_ns(self) -> int:
        """How much later the second slot's requests are than the first's."""
        assert self.since_ns is not None and self.again_ns is not None
        return self.again_ns - self.since_ns
