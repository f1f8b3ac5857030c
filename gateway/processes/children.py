"""Which child process to start, signal or kill next?

The supervisor's decisions, without a process or a clock.  Instants are monotonic nanoseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum

FIRST_DELAY_S = 0.2
MOST_DELAY_S = 10.0
_HURRY_NS = 1_000_000_000  # what is left to finish after a second signal
FORGIVEN_S = 30.0  # a child that lived this long had a good start: its next death is a first one


class Stage(IntEnum):
    """What a child is.

    Children start from the highest stage down and end from the lowest up: analysis must be listening before
    the shadow connects, and must still be there for the last observations; launched engines end once no copy
    comes any more.  Discovery and the reader of
    engines' events only look around.  What records is there before the first request and until the last.
    """

    WORKER = 0
    SHADOW = 1
    LAUNCH = 2
    ANALYSIS = 3
    DISCOVERY = 4
    EVENTS = 5
    RECORDING = 6


class Order(Enum):
    """What to do to a running child."""

    FINISH = "finish"  # SIGTERM: end what runs, then exit
    KILL = "kill"  # SIGKILL


@dataclass(frozen=True, slots=True)
class Child:
    """One process to keep alive.

    `spec` is handed over on its stdin; `fds` are the descriptors it inherits; `grace_s` is how long it may
    take to finish after being told to.  One that `hears` takes `--control FD`, a `channel.Channel` to the
    supervisor.
    """

    name: str
    stage: Stage
    argv: tuple[str, ...]
    spec: bytes = field(default=b"", repr=False)
    fds: tuple[int, ...] = ()
    grace_s: float = 5.0
    hears: bool = False


def next_delay_s(last_delay_s: float | None, lived_s: float) -> float:
    """Seconds to wait before a dead child is started again: 0.2 doubling to 10, afresh after 30 s of life."""
    if last_delay_s is None or lived_s >= FORGIVEN_S:
        return FIRST_DELAY_S
    return min(MOST_DELAY_S, last_delay_s * 2)


@dataclass(slots=True)
class _Life:
    child: Child
    start_at_ns: int = 0  # when it is due, while it is dead
    started_ns: int | None = None  # None while it is dead
    delay_s: float | None = None  # the wait before its present or coming life
    told_ns: int | None = None  # when it was told to finish
    killed: bool = False


class Roster:
    """All children of one supervisor and what becomes of them."""

    def __init__(self, children: Sequence[Child]) -> None:
        ordered = sorted(children, key=lambda child: -child.stage)
        self._lives = {child.name: _Life(child) for child in ordered}
        if len(self._lives) != len(children):
            raise ValueError("two children have one name")
        self._draining = False
        self._hurried_ns: int | None = None
        self.killed: list[str] = []

    @property
    def draining(self) -> bool:
        """Whether the end was asked for."""
        return self._draining

    @property
    def ended(self) -> bool:
        """Whether the end was asked for and no child runs any more."""
        return self._draining and not any(life.started_ns is not None for life in self._lives.values())

    def due(self, now_ns: int) -> list[Child]:
        """The children to start now, in order; none once the end was asked for."""
        if self._draining:
            return []
        return [
            life.child
            for life in self._lives.values()
            if life.started_ns is None and life.start_at_ns <= now_ns
        ]

    def keep(self, child: Child) -> None:
        """Keep this child too, due at once; in place of one of its name from that one's next life on."""
        life = self._lives.get(child.name)
        if life is not None:
            life.child = child
            return
        lives = [*self._lives.values(), _Life(child)]
        self._lives = {life.child.name: life for life in sorted(lives, key=lambda life: -life.child.stage)}

    def started(self, name: str, now_ns: int) -> None:
        """`name` runs since now."""
        life = self._lives[name]
        life.started_ns, life.told_ns, life.killed = now_ns, None, False

    def died(self, name: str, now_ns: int) -> float | None:
        """`name` ran and does not any more, or could not be started.

        Gives the seconds until it is started again, or None when it will not be.
        """
        life = self._lives[name]
        lived_s = 0.0 if life.started_ns is None else (now_ns - life.started_ns) / 1e9
        life.started_ns = None
        if self._draining:
            return None
        life.delay_s = next_delay_s(life.delay_s, lived_s)
        life.start_at_ns = now_ns + round(life.delay_s * 1e9)
        return life.delay_s

    def drain(self, now_ns: int) -> None:
        """The end is asked for; asked for again, everything must end within a second."""
        if self._draining and self._hurried_ns is None:
            self._hurried_ns = now_ns
        self._draining = True

    def orders(self, now_ns: int) -> list[tuple[Child, Order]]:
        """Whom to tell what now.  Each order is given once.

        A stage is told to finish when no child of an earlier stage runs; who outstays its grace is killed.
        """
        if not self._draining:
            return []
        running = [life for life in self._lives.values() if life.started_ns is not None]
        if not running:
            return []
        front = min(life.child.stage for life in running)
        orders: list[tuple[Child, Order]] = []
        for life in running:
            if self._hurried_ns is None and life.child.stage > front:
                continue
            if life.told_ns is None:
                life.told_ns = now_ns
                orders.append((life.child, Order.FINISH))
            elif not life.killed and now_ns >= self._kill_at_ns(life, life.told_ns):
                life.killed = True
                self.killed.append(life.child.name)
                orders.append((life.child, Order.KILL))
        return orders

    def wake_in_s(self, now_ns: int) -> float | None:
        """Seconds until `due` or `orders` may have something new by time alone; None: only an event can."""
        instants = []
        for life in self._lives.values():
            if life.started_ns is None and not self._draining:
                instants.append(life.start_at_ns)
            elif life.started_ns is not None and life.told_ns is not None and not life.killed:
                instants.append(self._kill_at_ns(life, life.told_ns))
        return None if not instants else max(0.0, (min(instants) - now_ns) / 1e9)

    def _kill_at_ns(self, life: _Life, told_ns: int) -> int:
        at_ns = told_ns + round(life.child.grace_s * 1e9)
        if self._hurried_ns is None:
            return at_ns
        return min(at_ns, max(told_ns, self._hurried_ns) + _HURRY_NS)
