"""Which candidates are out of an experiment's race, why, and who leaves it now?"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp
from typing import Any

import msgspec
import numpy as np

from analysis.measure import LATENCIES
from analysis.modes import LIVE, units_of
from analysis.rates import MORE_ERRORS
from analysis.spec import ExperimentSpec, RaceSpec
from analysis.standing import DIVERGES
from analysis.stats.racing import halved, rung_reached, rung_units, surely_beaten
from analysis.stats.windows import Windows
from analysis.verdict import log_margin
from analysis.weighing import Weights, is_withheld, score, units, usual, weighted, words

Json = Mapping[str, Any]
_LOOKS = 64  # once so many windows are there, the next look is when as large a share of them is there anew


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that left: at which `rung` (0: it was beaten, `by` whom), after how many `units`, and `why`
    in words; `window` is the number of the last window before."""

    name: str
    rung: int
    by: str | None
    units: int
    window: int
    why: str


class Race:
    """One experiment's race; with `spec.race` None nobody ever leaves.

    Deciding and leaving are apart: what was decided is an act, so the log has it, and a replay takes it from
    there.
    """

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._margin = log_margin(spec.margin)
        self._next_look = 0
        self._looked_in: int | None = None
        self.left: dict[str, Left] = {}

    @property
    def out(self) -> tuple[str, ...]:
        """Who left, in order."""
        return tuple(self.left)

    def in_new_window(self, number: int) -> bool:
        """Whether nobody asked yet in the window of this number: in each there is one look, at most."""
        if self._spec.race is None or number == self._looked_in:
            return False
        self._looked_in = number
        return True

    def _is_due(self, closed: int) -> bool:
        """Whether so many windows are enough more than at the last look."""
        if closed < self._next_look or len(self.left) + 1 >= len(self._spec.candidates):
            return False
        self._next_look = closed + max(1, closed // _LOOKS)
        return True

    def how_left(self, name: str) -> str | None:
        """When and why a candidate left, in words; None where it did not."""
        left = self.left.get(name)
        if left is None:
            return None
        return f"left the race {f'at rung {left.rung}' if left.rung else 'beaten'}: {left.why}"

    def leave(self, left: Left) -> None:
        """It is out from now on.  ValueError where it cannot be: it is no candidate, or the last one."""
        running = [name for name in self._spec.candidates if name not in self.left]
        if left.name not in self._spec.candidates or running == [left.name]:
            raise ValueError(f"{left.name!r} cannot leave the race of {self._spec.name}")
        self.left.setdefault(left.name, left)

    def look(self, ranking: Callable[[], Json], windows: Windows) -> list[Left]:
        """Who leaves now, as the ranking and its windows say: those beaten, and at a rung the worse half.

        A candidate whose verdict is withheld beats nobody, and a rung waits for it.  One of which something
        amiss is said (`flags`) beats only those of which that is said, too.
        """
        race = self._spec.race
        if race is None or not self._is_due(windows.closed):
            return []
        running = {c["name"]: c for c in ranking()["candidates"] if c["name"] not in self.left}
        weights = weights_of(race, running.values())
        found = {
            name: self._left(name, by, 0, windows, running, weights)
            for name, by in (self._beaten(running, windows, weights) if race.beaten else {}).items()
        }
        still = {name: c for name, c in running.items() if name not in found}
        rung, due, waits = self._rung(still, weights)
        for name in due if waits is None else ():
            found[name] = self._left(name, None, rung, windows, still, weights)
        return list(found.values())

    def _rung(self, running: Mapping[str, Json], weights: Weights) -> tuple[int, list[str], str | None]:
        """The last rung that those still in have come to, who is due to leave, and whom it waits for."""
        race = self._spec.race
        assert race is not None
        rung = rung_reached(race.first_rung, self._units(running, weights))
        order = sorted(running, key=lambda name: _place(running[name], weights, race))
        due = halved(order, len(self._spec.candidates), rung) if rung else []
        for name, candidate in running.items():
            if due and is_withheld(candidate, weights) and not _fails(candidate, weights):
                return rung, due, name
        return rung, due, None

    def show(self, candidates: Sequence[Json]) -> dict[str, Any] | None:
        """JSON-able: the rules, who is in, who left and why, after how many units the next rung comes, and
        for whom it waits; None where there is no race."""
        race = self._spec.race
        if race is None:
            return None
        running = {c["name"]: c for c in candidates if c["name"] not in self.left}
        weights = weights_of(race, running.values())
        rung, due, waits = self._rung(running, weights)
        next_rung = None
        if race.first_rung and len(running) > 1:
            next_rung = rung_units(race.first_rung, rung if due else rung + 1)
        return {
            "weights": dict(weights),
            "beaten": race.beaten,
            "running": sorted(running),
            "left": [msgspec.to_builtins(left) for left in self.left.values()],
            "next_rung_units": next_rung,
            "waits_for": waits,
        }

    def _units(self, running: Mapping[str, Json], weights: Weights) -> int:
        """What the one that has fewest has; one that mostly fails has none, and is not waited for."""
        return min((units(c, weights) for c in running.values() if not _fails(c, weights)), default=0)

    def _beaten(self, running: Mapping[str, Json], windows: Windows, weights: Weights) -> dict[str, str]:
        race, spec = self._spec.race, self._spec
        assert race is not None
        judged = [name for name, c in running.items() if not is_withheld(c, weights)]
        if len(judged) < 2:
            return {}
        counts = np.array(list(weights.values()))
        faults = {name: _faults(running[name], race) for name in judged}
        return surely_beaten(
            {
                name: weighted(windows.table([f"{latency} {name}" for latency in weights]), counts)
                for name in judged
            },
            lambda winner, loser: faults[winner] <= faults[loser],
            spec.alpha,
            self._margin,
            starters=len(spec.candidates),
            together=spec.mode == LIVE,
        )

    def _left(
        self,
        name: str,
        by: str | None,
        rung: int,
        windows: Windows,
        running: Mapping[str, Json],
        weights: Weights,
    ) -> Left:
        seen = self._units(running, weights) if rung else units(running[name], weights)
        own, what, which = _changed(running[name], weights), units_of(self._spec.mode), words(weights)
        if by is not None:
            better = _changed(running[by], weights)
            why = (
                f"{by} ({which} {better}) is surely better than it ({own}) by more than the margin,"
                f" after {seen} {what}"
            )
        else:
            why = f"in the worse half by {which} ({own}) after {seen} {what}"
            faults = sorted(_faults(running[name], self._spec.race))
            why += f"; {', '.join(faults)}" if faults else "; not shown to be worse"
        numbers = windows.numbers()
        return Left(name=name, rung=rung, by=by, units=seen, window=numbers[-1] if numbers else 0, why=why)


def weights_of(race: RaceSpec | None, candidates: Iterable[Json]) -> Weights:
    """By what candidates are held against each other: what is asked for, or what `rank` goes by."""
    asked = {} if race is None else race.weights
    if asked:
        return {latency: asked[latency] for latency in LATENCIES if latency in asked}
    return usual(is_streamed=any(c["verdicts"]["tpot"]["units"] for c in candidates))


def _faults(candidate: Json, race: RaceSpec | None) -> frozenset[str]:
    accepted = {DIVERGES} if race is not None and race.accept_outputs else set()
    return frozenset(set(candidate["flags"]) - accepted)


def _fails(candidate: Json, weights: Weights) -> bool:
    """Whether it mostly fails, so that there is no estimate of it."""
    return score(candidate, weights) is None and MORE_ERRORS in candidate["flags"]


def _place(candidate: Json, weights: Weights, race: RaceSpec) -> tuple[bool, bool, float, str]:
    """Behind all others those that mostly fail, before these those of which something amiss is said."""
    return (
        _fails(candidate, weights),
        bool(_faults(candidate, race)),
        score(candidate, weights) or 0.0,
        candidate["name"],
    )


def _changed(candidate: Json, weights: Weights) -> str:
    found = score(candidate, weights)
    return "it mostly fails" if found is None else f"{(exp(found) - 1.0) * 100.0:+.1f} %"
