"""Which column of the shared table is each key's and each fleet's, while the configuration changes?"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class NoSlotLeftError(Exception):
    """More names than the table has room for."""


class Slots(Generic[Name]):
    """Slots by name, for one run.  A name that was seen once keeps its slot, also while it is away.

    Only when all `width` are given does another name get the slot of one that is away and holds nothing
    (`is_empty`).
    """

    def __init__(self, width: int, is_empty: Callable[[int], bool]) -> None:
        self._width = width
        self._is_empty = is_empty
        self._given: dict[Name, int] = {}

    def of(self, names: Iterable[Name]) -> dict[Name, int]:
        """The slots of `names`.  Raises NoSlotLeftError, and nothing is changed."""
        wanted = list(dict.fromkeys(names))
        given = dict(self._given)
        for name in wanted:
            if name not in given:
                given[name] = self._free(given, wanted)
        self._given = given
        return {name: given[name] for name in wanted}

    def _free(self, given: dict[Name, int], wanted: list[Name]) -> int:
        used = set(given.values())
        if len(used) < self._width:
            return next(slot for slot in range(self._width) if slot not in used)
        for name, slot in given.items():
            if name not in wanted and self._is_empty(slot):
                del given[name]
                return slot
        raise NoSlotLeftError(f"there is room for {self._width}; restart to have more")
