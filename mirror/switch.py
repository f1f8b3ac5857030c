"""Which experiments are paused, why, and until when?  Decided here, without a clock, a file or a process.

Three may pause an experiment: somebody by hand, the configuration, and its own brakes.  It is copied while
none of them does.  Instants are monotonic nanoseconds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.brakes import BrakeSpec, Trip, hold_s

BY_HAND: Final = "by_hand"
CONFIG: Final = "config"
# Who ran so long, or four times as long as it was held, begins a new row of pauses.
_FORGIVEN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What the configuration says of one experiment."""

    paused: bool = False
    brakes: BrakeSpec = field(default_factory=BrakeSpec)


@dataclass(frozen=True, slots=True)
class Pause:
    """Why an experiment is paused, what would mend it, and when it goes on by itself (None: it does not).

    `halts`: engines that were launched for it are ended meanwhile.
    """

    reason: str
    detail: str
    remedy: str
    since_ns: int
    until_ns: int | None = None
    halts: bool = False


@dataclass(slots=True)
class _Brake:
    """One experiment's row of pauses by its brakes."""

    times: int = 0
    held_s: float = 0.0
    ended_ns: int = 0
    pause: Pause | None = None


@dataclass(slots=True)
class Switch:
    """All experiments of one gateway."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    trips: Counter[tuple[str, str]] = field(default_factory=Counter)  # by experiment and reason
    _hand: dict[str, Pause] = field(default_factory=dict)
    _config: dict[str, Pause] = field(default_factory=dict)
    _brakes: dict[str, _Brake] = field(default_factory=dict)

    def configure(self, settings: Mapping[str, Setting], now_ns: int) -> None:
        """Experiments, and which of them the configuration pauses.

        One that is gone is forgotten, but for a pause by hand: it is remembered should it come back.
        """
        self.settings = settings
        paused = {name for name, setting in settings.items() if setting.paused}
        said = "the configuration says so", "take `paused: true` out of its experiment and reload"
        self._config = {name: self._config.get(name) or Pause(CONFIG, *said, now_ns) for name in paused}
        self._brakes = {name: brake for name, brake in self._brakes.items() if name in settings}

    def pause(self, name: str, now_ns: int, why: str = "", *, halts: bool = False) -> None:
        """Somebody pauses it; a second time changes nothing, but that its engines may be ended then."""
        remedy = "`shadowlane experiment resume`, once you want it to go on"
        pause = Pause(BY_HAND, why or "it was paused by hand", remedy, now_ns)
        held = self._hand.setdefault(name, pause)
        self._hand[name] = replace(held, halts=held.halts or halts)

    def resume(self, name: str, now_ns: int) -> None:
        """Somebody wants it to go on: a pause by hand and one by a brake are over, and its row of pauses."""
        self._hand.pop(name, None)
        self._brakes.pop(name, None)

    def trip(self, name: str, trip: Trip, now_ns: int) -> bool:
        """A brake says to pause it: whether that is news.  Said again, the pause lasts from then."""
        setting = self.settings.get(name)
        if setting is None:
            return False
        brake = self._brakes.setdefault(name, _Brake())
        held = brake.pause
        if held is None:
            ran_s = (now_ns - brake.ended_ns) / 1e9
            brake.times = 1 if ran_s > max(_FORGIVEN_S, 4 * brake.held_s) else brake.times + 1
            brake.held_s = hold_s(setting.brakes, brake.times)
            self.trips[name, trip.reason] += 1
        since_ns = now_ns if held is None else held.since_ns
        until_ns = now_ns + round(brake.held_s * 1e9)
        brake.pause = Pause(trip.reason, trip.detail, trip.remedy, since_ns, until_ns)
        return held is None

    def look(self, now_ns: int) -> list[str]:
        """Those whose brakes let go now."""
        over = []
        for name, brake in self._brakes.items():
            pause = brake.pause
            if pause is not None and pause.until_ns is not None and pause.until_ns <= now_ns:
                brake.pause, brake.ended_ns = None, now_ns
                over.append(name)
        return over

    def due_ns(self) -> int | None:
        """When `look` may next have something."""
        pauses = [brake.pause.until_ns for brake in self._brakes.values() if brake.pause is not None]
        return min((until_ns for until_ns in pauses if until_ns is not None), default=None)

    @property
    def paused(self) -> dict[str, Pause]:
        """The experiments that are not copied now, and why: what lasts longest is named."""
        braked = {name: brake.pause for name, brake in self._brakes.items() if brake.pause is not None}
        found = {**braked, **self._config, **self._hand}
        return {name: pause for name, pause in found.items() if name in self.settings}

    @property
    def by_hand(self) -> dict[str, str]:
        """What a restart should remember: the experiments paused by hand, and why."""
        return {name: pause.detail for name, pause in self._hand.items()}

    @property
    def halted(self) -> frozenset[str]:
        """Those whose launched engines are to be ended for as long as they are paused by hand."""
        return frozenset(name for name, pause in self._hand.items() if pause.halts)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that are no experiments."""
        return [name for name in names if name not in self.settings]
