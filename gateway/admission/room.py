"""How much one fleet takes at a time: its own limit and those of its engines that are up."""

from collections.abc import Sequence
from typing import Protocol

from gateway.admission.line import Line
from gateway.admission.table import Table
from gateway.admission.turns import Turns
from gateway.spec import EngineSpec, RoomSpec

UNBOUNDED = 1 << 62
_NEVER_NS = -(1 << 62)
_FRESH_NS = 100_000_000  # an engine that goes down or comes back counts within this


class Engine(Protocol):
    """What admission sees of an engine: its column in the table, its own limit, whether it is used."""

    @property
    def id(self) -> int: ...

    @property
    def up(self) -> bool: ...

    @property
    def spec(self) -> EngineSpec: ...


class Fleet(Protocol):
    """What admission sees of a fleet, whose engines come and go."""

    @property
    def engines(self) -> Sequence[Engine]: ...


class Room:
    """One fleet: its bounds, who waits for it here, and whose turn it is."""

    __slots__ = ("_capacity", "_fleet", "_read_ns", "caps", "is_bounded", "line", "slot", "spec", "turns")

    spec: RoomSpec
    caps: dict[int, int]
    """What each engine takes, where that is limited."""

    def __init__(self, spec: RoomSpec, fleet: Fleet, table: Table, worker: int, trickle: int) -> None:
        self.slot = spec.slot
        self.line = Line(table, spec.slot)
        self.turns = Turns(table, worker, spec.slot, self.line, trickle)
        self.apply(spec, fleet, trickle)

    def apply(self, spec: RoomSpec, fleet: Fleet, trickle: int) -> None:
        """Use other bounds from now on; what waits goes on waiting."""
        self.spec = spec
        self._fleet = fleet
        self.turns.trickle = trickle
        self._read()
        self._read_ns = _NEVER_NS

    def _read(self) -> None:
        engines = self._fleet.engines
        self.caps = {e.id: e.spec.concurrency for e in engines if e.spec.concurrency is not None}
        most = UNBOUNDED if self.spec.concurrency is None else self.spec.concurrency
        up = [engine.id for engine in engines if engine.up]
        if up and all(engine in self.caps for engine in up):
            most = min(most, sum(self.caps[engine] for engine in up))
        self._capacity = most
        self.is_bounded = self.spec.concurrency is not None or bool(self.caps)

    def capacity(self, at_ns: int) -> int:
        """How many requests may run at once, so that each finds an engine with room.

        Where no engine is up there is nothing to wait for: the relay says so at once.
        """
        if at_ns - self._read_ns > _FRESH_NS:
            self._read()
            self._read_ns = at_ns
        return self._capacity
