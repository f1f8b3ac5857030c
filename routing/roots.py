"""Which runs begin with a link that begins a chain? One for each engine that holds it: most hold nothing."""

from sys import getsizeof
from typing import Any, Final

from routing.recency import Run

_SHARDS: Final = 64  # so that making one anew takes no time that a request could notice
_MOST_BYTES: Final = 72
_FEW: Final = 64
_MANY: Final = 1 << 14  # to move more at once takes over a millisecond or two, in which nobody is served

Held = Run | tuple[Run, ...]
"""One run, as mostly, or those of several engines."""


class Roots:
    """First links and the runs that begin with them, whose parents are their engines' trunks."""

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: list[dict[int, Held]] = [{} for _ in range(_SHARDS)]

    def holders(self, first: int) -> tuple[Run, ...]:
        """Every engine's run that begins so."""
        held = self._shards[first % _SHARDS].get(first)
        if held is None:
            return ()
        return held if isinstance(held, tuple) else (held,)

    def own(self, first: int, trunk: Run) -> Run | None:
        """An engine's run that begins so."""
        held = self._shards[first % _SHARDS].get(first)
        if isinstance(held, tuple):
            for run in held:
                if run.parent is trunk:
                    return run
            return None
        return held if held is not None and held.parent is trunk else None

    def add(self, first: int, run: Run) -> None:
        """One engine more has a run that begins so."""
        shard = self._shards[first % _SHARDS]
        held = shard.get(first)
        if held is None:
            shard[first] = run
            tighten(shard)
        elif isinstance(held, tuple):
            shard[first] = (*held, run)
        else:
            shard[first] = (held, run)

    def discard(self, first: int, run: Run) -> None:
        """An engine's run is gone, or does not begin so any more."""
        shard = self._shards[first % _SHARDS]
        held = shard[first]
        if not isinstance(held, tuple):
            del shard[first]
            return
        left = tuple([one for one in held if one is not run])
        shard[first] = left[0] if len(left) == 1 else left


def tighten(table: dict[int, Any]) -> None:
    """Make a table anew where it has too much room to spare; to be called when something was added.

    Python makes a table from which as many go as come for three to six times as many entries: 60 to 120
    bytes each. Made anew it is for one and a half to three times as many. Not where that would leave room for
    less than a fifth: so it is seldom, and all are moved only where a fifth as many came or went. Nor where
    there are so many that who waits for it would notice.
    """
    if _FEW <= len(table) <= _MANY and getsizeof(table) > _MOST_BYTES * len(table):
        there = dict(table)
        table.clear()
        table.update(there)
