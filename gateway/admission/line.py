"""Which of the requests that wait here for a fleet is next, and which must go when they are too many."""

from collections import OrderedDict
from collections.abc import Iterator

from gateway.admission.table import CLASSES, Table
from gateway.admission.ticket import Ticket


class Line:
    """By class, then by key in weighted turns, then by arrival.

    A step costs the same however many wait, but for how many keys they are of.
    """

    __slots__ = ("_by_class", "_entered", "_fleet", "_table", "turn_gap_ns", "turned_ns")

    def __init__(self, table: Table, fleet: int) -> None:
        self._table = table
        self._fleet = fleet
        self._entered: OrderedDict[Ticket, None] = OrderedDict()
        # a queue lives exactly as long as something waits in it
        self._by_class: tuple[dict[int, OrderedDict[Ticket, None]], ...] = tuple({} for _ in range(CLASSES))
        self.turn_gap_ns = 0  # between two turns, smoothed: what a wait is estimated from
        self.turned_ns = 0

    def __len__(self) -> int:
        return len(self._entered)

    def __iter__(self) -> Iterator[Ticket]:
        return iter(self._entered)

    def waiting(self, priority: int) -> int:
        """How many of a class wait."""
        return sum(map(len, self._by_class[priority].values()))

    def holds(self, ticket: Ticket) -> bool:
        """Whether any request of the ticket's key and class waits."""
        return ticket.key.slot in self._by_class[ticket.priority]

    @property
    def oldest(self) -> Ticket | None:
        return next(iter(self._entered), None)

    def add(self, ticket: Ticket) -> None:
        self._entered[ticket] = None
        self._by_class[ticket.priority].setdefault(ticket.key.slot, OrderedDict())[ticket] = None

    def remove(self, ticket: Ticket) -> None:
        """Take it out, wherever it stands."""
        del self._entered[ticket]
        queues = self._by_class[ticket.priority]
        queue = queues[ticket.key.slot]
        del queue[ticket]
        if not queue:
            del queues[ticket.key.slot]

    def head(self, priority: int) -> Ticket | None:
        """Whose turn is next in a class: of the key that was given least by its weight; then the oldest."""
        queues = self._by_class[priority]
        if len(queues) < 2:
            return next(iter(next(iter(queues.values()))), None) if queues else None
        table = self._table
        start = table.served + (self._fleet * CLASSES + priority) * table.key_slots
        served = table.cells[start : start + table.key_slots]
        firsts = (next(iter(queue)) for queue in queues.values())
        return min(firsts, key=lambda first: (served[first.key.slot], first.entered_ns))

    def victim(self, newcomer: Ticket) -> Ticket | None:
        """Who gives way to a newcomer for whom there is no place; None: the newcomer itself.

        The newest request of the lowest class that waits, of the key with most waiting there by its weight.
        In the newcomer's own class only if the newcomer's key would have fewer waiting all the same.
        """
        lowest = next((c for c in reversed(range(CLASSES)) if self._by_class[c]), -1)
        if lowest < newcomer.priority:
            return None
        queues = self._by_class[lowest].values()
        longest = max(queues, key=lambda queue: len(queue) / _newest(queue).key.weight)
        last = _newest(longest)
        if lowest == newcomer.priority:
            own = len(self._by_class[lowest].get(newcomer.key.slot, ()))
            if len(longest) / last.key.weight <= (own + 1) / newcomer.key.weight:
                return None
        return last

    def turned(self, at_ns: int) -> None:
        """A turn was given."""
        if self.turned_ns:
            gap_ns = at_ns - self.turned_ns
            self.turn_gap_ns = gap_ns if not self.turn_gap_ns else (7 * self.turn_gap_ns + gap_ns) // 8
        self.turned_ns = at_ns


def _newest(queue: OrderedDict[Ticket, None]) -> Ticket:
    return next(reversed(queue))
