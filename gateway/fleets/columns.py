"""Which column of the load table is each engine's, while engines come and go?

An engine that stays keeps its column.  That of one that left is given to another only when every worker has
heard that it left and nothing runs there any more; until then it may come back to it.
"""

from collections.abc import Callable, Iterable, Mapping

Place = tuple[str | None, str]  # a fleet's model, an engine's URL

SPARE = 512  # for engines that are added while it runs


class NoColumnLeftError(Exception):
    """More engines than the table has room for."""


class Columns:
    """The columns of one table of `width`.

    `is_empty(column)` says whether no worker has anything running there.
    """

    def __init__(self, width: int, is_empty: Callable[[int], bool]) -> None:
        self._width = width
        self._is_empty = is_empty
        self._held: dict[Place, int] = {}
        self._left: dict[Place, int] = {}  # perhaps still known to a worker
        self._known_to_none: dict[Place, int] = {}  # left, and all workers have heard

    def proposed(self, places: Iterable[Place]) -> dict[Place, int]:
        """A column for each of these; nothing is changed.  Raises NoColumnLeftError."""
        wanted = list(dict.fromkeys(places))
        past = {**self._known_to_none, **self._left, **self._held}
        found = {place: past[place] for place in wanted if place in past}
        taken = {*self._held.values(), *self._left.values(), *found.values()}
        taken |= {column for column in self._known_to_none.values() if not self._is_empty(column)}
        free = (column for column in range(self._width) if column not in taken)
        for place in wanted:
            if place not in found:
                column = next(free, None)
                if column is None:
                    raise NoColumnLeftError(
                        f"there are {len(wanted)} engines, and room for {self._width} with those that leave;"
                        " restart to have more"
                    )
                found[place] = column
        return found

    def hold(self, columns: Mapping[Place, int]) -> None:
        """These are in use from now on, as `proposed`; all others have left."""
        used = set(columns.values())
        left = {**self._left, **self._held}
        self._left = {place: column for place, column in left.items() if column not in used}
        waiting = self._known_to_none.items()
        self._known_to_none = {place: column for place, column in waiting if column not in used}
        self._held = dict(columns)

    def all_heard(self) -> None:
        """Every worker serves by the columns held now."""
        self._known_to_none.update(self._left)
        self._left.clear()
