"""When is a launched engine started, waited for, given another try, given up?  Decided without a process or
a clock.

Instants are monotonic nanoseconds.
"""

from dataclasses import dataclass
from enum import StrEnum

FIRST_DELAY_S = 1.0
MOST_DELAY_S = 60.0
FORGIVEN_S = 600.0  # an engine that served this long had a good start: its next death is a first one
# Probes of an engine that serves: under load some are slow, so only a minute of silence is a death.
PROBE_EVERY_S = 5.0
PROBE_TIMEOUT_S = 10.0
SILENCE_S = 60.0


class State(StrEnum):
    """What an engine is doing."""

    WAITING = "waiting"  # for a GPU, or for its port
    STARTING = "starting"  # it runs and does not serve yet
    WARMING = "warming"  # it serves; its first requests are ours
    READY = "ready"  # copies may come
    RESTARTING = "restarting"  # it died; it is started again in a while
    FAILED = "failed"  # it died too often, and is not started again
    YIELDING = "yielding"  # another arm has its turn, or its experiment is paused: it is being ended
    RESTING = "resting"  # another arm has its turn, or its experiment is paused
    STOPPED = "stopped"  # its experiment has ended


@dataclass(slots=True)
class Life:
    """One engine's fate over all its starts.

    `why` is what it waits for or died of; `deaths_in_a_row` those since it last served for ten minutes.
    """

    ready_s: float
    restarts: int
    state: State = State.WAITING
    why: str | None = None
    starts: int = 0
    deaths: int = 0
    deaths_in_a_row: int = 0
    started_ns: int = 0
    ready_ns: int | None = None
    heard_ns: int = 0

    def waits(self, why: str) -> None:
        """It cannot be started yet."""
        self.state, self.why = State.WAITING, why

    def started(self, now_ns: int) -> None:
        """Its command runs."""
        self.state, self.why = State.STARTING, None
        self.starts += 1
        self.started_ns, self.ready_ns = now_ns, None

    def served(self) -> None:
        """It answers its health probe for the first time."""
        self.state = State.WARMING

    def warmed(self, now_ns: int) -> None:
        """It has answered what it was asked; copies may come."""
        self.state, self.why = State.READY, None
        self.ready_ns = self.heard_ns = now_ns

    def probed(self, now_ns: int, *, well: bool) -> None:
        """A probe of an engine that is ready was answered well, or was not."""
        if well:
            self.heard_ns = now_ns

    def overdue(self, now_ns: int) -> str | None:
        """Why it is to be ended although it runs: it never came to serve, or serves no more."""
        if self.state in (State.STARTING, State.WARMING):
            if now_ns - self.started_ns >= self.ready_s * 1e9:
                what = "healthy" if self.state is State.STARTING else "warm"
                return f"not {what} within {self.ready_s:g} s"
        elif self.state is State.READY and now_ns - self.heard_ns >= SILENCE_S * 1e9:
            return f"not healthy for {SILENCE_S:g} s"
        return None

    def died(self, why: str, now_ns: int) -> float | None:
        """It ended, was ended, or could not be started.

        Gives the seconds until it is started again, or None when it is given up.
        """
        if self.ready_ns is not None and now_ns - self.ready_ns >= FORGIVEN_S * 1e9:
            self.deaths_in_a_row = 0
        self.deaths += 1
        self.deaths_in_a_row += 1
        self.why, self.ready_ns = why, None
        if self.deaths_in_a_row > self.restarts:
            self.state = State.FAILED
            return None
        self.state = State.RESTARTING
        return min(MOST_DELAY_S, FIRST_DELAY_S * 2.0 ** (self.deaths_in_a_row - 1))

    def yields(self) -> None:
        """It is another's turn: it is being ended."""
        self.state, self.why = State.YIELDING, None

    def rests(self, why: str | None = None) -> None:
        """It has ended, as it is another's turn, or for `why`: what it died of before is forgotten."""
        self.state, self.why = State.RESTING, why
        self.deaths_in_a_row, self.ready_ns = 0, None

    def ended(self) -> None:
        """Its experiment has."""
        self.state, self.why = State.STOPPED, None
