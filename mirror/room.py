"""Is there memory for more of what copies hold, and which of them gives way where there is none?"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Holder:
    """An open copy: how many bytes it holds, and what ends it, so that it holds none."""

    give_way: Callable[[], None]
    held_bytes: int = 0


class Room:
    """The memory of all experiments' copies: requests, answers as they come, answers kept.

    Of `limit_bytes` each of as many `copies` as may be under way at once is sure of an equal share, and may
    hold more while nobody wants it.  Where it is full, who stays within its share gets room from whoever
    holds the most beyond it: so a few answers without end, held until their arms' timeout, shut nobody out.
    Who is beyond its share itself gets none: copies as large as each other would push each other out, and
    none would end.  A conversation begins in the first three quarters, so that those that run can end.
    """

    def __init__(self, limit_bytes: int, copies: int) -> None:
        self.held_bytes = 0
        self._holders: dict[Holder, None] = {}
        self.bound(limit_bytes, copies)

    def bound(self, limit_bytes: int, copies: int) -> None:
        """From now on this much is there, for so many copies."""
        self._limit_bytes = limit_bytes
        self._share_bytes = limit_bytes // max(1, copies)

    def enter(self, give_way: Callable[[], None]) -> Holder:
        """A copy opens, and holds nothing yet."""
        holder = Holder(give_way)
        self._holders[holder] = None
        return holder

    def leave(self, holder: Holder) -> None:
        """It is open no more: what it held is free."""
        del self._holders[holder]
        self.held_bytes -= holder.held_bytes
        holder.held_bytes = 0

    def hold(self, holder: Holder, size: int) -> None:
        """It holds `size` bytes more, or fewer; whether there is room was asked."""
        holder.held_bytes += size
        self.held_bytes += size

    def make(self, size: int, *, held_bytes: int = 0, copies: int = 1, begins: bool = False) -> bool:
        """Whether so many `copies` can each hold `size` more than the `held_bytes` they have; who must gives
        way.  `begins`: a conversation begins with them."""
        most = self._limit_bytes - self._limit_bytes // 4 if begins else self._limit_bytes
        while self.held_bytes + size * copies > most:
            greatest = max(self._holders, key=lambda holder: holder.held_bytes, default=None)
            if greatest is None or greatest.held_bytes <= self._share_bytes:
                return False
            if held_bytes + size > self._share_bytes:
                return False
            greatest.give_way()
        return True
