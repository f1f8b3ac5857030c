"""Whose turn is it at a fleet, over all workers?  Strict by class but for a trickle, fair between keys.

Fairness is start-time fair queueing (Goyal, Vin and Cheng 1996) on tokens by weight: a key that begins to
wait starts where the last one served began, so that nobody saves up turns or owes any while not waiting.
"""

from gateway.admission.line import Line
from gateway.admission.table import CLASSES, Table
from gateway.admission.ticket import Ticket, Usage

PATIENCE_NS = 20_000_000
"""For how long a turn is left to another worker whose request comes first, but which does not take it."""
_UNIT = 1000  # a thousandth of a token of a key with weight 1
_MOST_TOKENS = 10_000_000  # what one request counts at most, whatever is said of it
_OUTPUT_WEIGHT = 2  # an output token costs an engine more than a prompt token: Sheng et al., OSDI 2024


class Turns:
    """The turns at one fleet as one worker sees them.  Called under the table's lock."""

    __slots__ = ("_cells", "_fleet", "_floor", "_line", "_served", "_slots", "_table", "_worker", "trickle")

    def __init__(self, table: Table, worker: int, fleet: int, line: Line, trickle: int) -> None:
        self._table = table
        self._cells = table.cells
        self._worker = worker
        self._fleet = fleet
        self._line = line
        self.trickle = trickle
        self._slots = table.key_slots
        self._floor = table.floor + fleet * CLASSES  # [class]
        self._served = table.served + fleet * CLASSES * table.key_slots  # [class, key]

    def start(self, ticket: Ticket) -> None:
        """A key comes that does not wait yet: it has saved up nothing."""
        cells = self._cells
        at = self._served + ticket.priority * self._slots + ticket.key.slot
        floor = cells[self._floor + ticket.priority]
        if cells[at] < floor:
            cells[at] = floor

    def charge(self, ticket: Ticket) -> None:
        """Its turn came."""
        cells = self._cells
        at = self._served + ticket.priority * self._slots + ticket.key.slot
        floor = self._floor + ticket.priority
        served = cells[at]
        if cells[floor] < served:
            cells[floor] = served
        ticket.charged = charged = _cost(ticket.prompt_tokens, ticket.key.weight)
        cells[at] = served + charged

    def correct(self, ticket: Ticket, usage: Usage) -> None:
        """What it cost is known now: prompt tokens that were not cached, and output."""
        tokens = usage.prompt_tokens - usage.cached_tokens + _OUTPUT_WEIGHT * usage.output_tokens
        self._add(ticket, _cost(tokens, ticket.key.weight) - ticket.charged)

    def uncharge(self, ticket: Ticket) -> None:
        """It was given nothing after all."""
        self._add(ticket, -ticket.charged)

    def publish(self) -> None:
        """Show the other workers who is first here."""
        table, cells = self._table, self._cells
        for priority in range(CLASSES):
            head = self._line.head(priority)
            line = self._fleet * CLASSES + priority
            cells[table.at(table.head_since + line, self._worker)] = 0 if head is None else head.entered_ns
            cells[table.at(table.head_key + line, self._worker)] = 0 if head is None else head.key.slot + 1

    def next(self) -> tuple[int, int] | None:
        """(worker, class) whose turn it is; None when nobody waits anywhere.

        The highest class that waits; at every `trickle`th turn the class that was served longest ago.  So a
        class that waits is passed over less than 3 x `trickle` times in a row: each of the two others may
        have such a turn once before it.
        """
        waiting = [priority for priority in range(CLASSES) if self._waits(priority)]
        if not waiting:
            return None
        table, cells = self._table, self._cells
        priority = waiting[0]
        if (cells[table.turns + self._fleet] + 1) % self.trickle == 0:
            first = table.turn_of + self._fleet * CLASSES
            priority = min(waiting, key=lambda waits: cells[first + waits])
        return self._first(priority), priority

    def taken(self, ticket: Ticket) -> None:
        """This worker took a turn for `ticket`, whose class was due."""
        table, cells = self._table, self._cells
        cells[table.turns + self._fleet] += 1
        cells[table.turn_of + self._fleet * CLASSES + ticket.priority] = cells[table.turns + self._fleet]
        cells[table.offered + self._fleet] = 0

    def left_to_other(self, at_ns: int) -> bool:
        """Whether the turn of another worker is still left to it; False once it did not take it in time."""
        at = self._table.offered + self._fleet
        if not self._cells[at]:
            self._cells[at] = at_ns
        return self._cells[at] > at_ns - PATIENCE_NS

    def _waits(self, priority: int) -> bool:
        table = self._table
        start = table.at(table.head_key + self._fleet * CLASSES + priority, 0)
        return any(self._cells[start : start + table.workers])

    def _first(self, priority: int) -> int:
        """The worker in which the first of a class waits; this one where it is as good as another."""
        table, cells = self._table, self._cells
        line = self._fleet * CLASSES + priority
        served = table.served + line * table.key_slots
        key, since = table.at(table.head_key + line, 0), table.at(table.head_since + line, 0)
        return min(
            (w for w in range(table.workers) if cells[key + w]),
            key=lambda w: (cells[served + cells[key + w] - 1], cells[since + w], w != self._worker),
        )

    def _add(self, ticket: Ticket, cost: int) -> None:
        self._cells[self._served + ticket.priority * self._slots + ticket.key.slot] += cost


def _cost(tokens: int, weight: float) -> int:
    if not 0 <= tokens <= _MOST_TOKENS:
        tokens = 0 if tokens < 0 else _MOST_TOKENS
    return int((1 + tokens) * _UNIT / weight)
