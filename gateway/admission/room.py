"""How much one fleet takes at a time: its own limit and those of its engines that are up."""

from collections.abc import Sequence
from typing import Protocol

from gateway.admission.line import Line
from gateway.admission.table import Table
from gateway.admission.turns import Turns
from gateway.spec import RoomSpec

UNBOUNDED = 1 << 62
_FRESH_NS = 100_000_000  # an engine that goes down or comes back counts within this


class Engine(Protocol):
    """What admission sees of an engine."""

    @property
    def id(self) -> int:
        """Its column in the shared table."""

    @property
    def up(self) -> bool:
        """Whether it is used."""


class Room:
    """One fleet: its bounds, who waits for it here, and whose turn it is."""

    __slots__ = ("_capacity", "_read_ns", "caps", "engines", "index", "line", "spec", "turns")

    spec: RoomSpec
    caps: dict[int, int]

    def __init__(
        self, index: int, spec: RoomSpec, engines: Sequence[Engine], table: Table, worker: int, trickle: int
    ) -> None:
        self.index = index
        self.engines = engines
        self.line = Line(table, index)
        self.turns = Turns(table, worker, index, self.line, trickle)
        self.apply(spec)

    def apply(self, spec: RoomSpec) -> None:
        """Use other bounds from now on; what waits goes on waiting."""
        self.spec = spec
        bounds = zip(self.engines, spec.engine_concurrency, strict=False)
        self.caps = {engine.id: most for engine, most in bounds if most is not None}
        self._capacity = UNBOUNDED if spec.concurrency is None else spec.concurrency
        self._read_ns = 0

    @property
    def is_bounded(self) -> bool:
        return self.spec.concurrency is not None or bool(self.caps)

    def capacity(self, at_ns: int) -> int:
        """How many requests may run at once, so that each finds an engine with room.

        Where no engine is up there is nothing to wait for: the relay says so at once.
        """
        if self.caps and at_ns - self._read_ns > _FRESH_NS:
            self._read_ns = at_ns
            up = [engine.id for engine in self.engines if engine.up]
            most = UNBOUNDED if self.spec.concurrency is None else self.spec.concurrency
            if up and all(engine in self.caps for engine in up):
                most = min(most, sum(self.caps[engine] for engine in up))
            self._capacity = most
        return self._capacity
