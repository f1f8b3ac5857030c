"""How much energy did GPUs use between two instants, and can the figure be believed?

A GPU's energy counter, read between the readings around an instant; where there is none, its power
integrated.  Both are of the board alone: no host, network or cooling, and idle power is not taken off.  The
rules are those of InferenceX's measured power: readings at most 3 s apart, counter and power within 5 % of
each other.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_APART_S: Final = 3.0
MOST_DISAGREEMENT: Final = 0.05
_MOST_GPUS = 64
_END_OF_TIME_NS = 1 << 63
_MJ_PER_J = 1000.0
_KEYS: Final = ("energy_mj", "power_w")


class _Series:
    """One GPU's readings of one arm."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.at_ns, self.energy_mj, self.power_w = array("q"), array("d"), array("d")

    def add(self, at_ns: int, told: Mapping[str, Any]) -> None:
        if self.at_ns and at_ns <= self.at_ns[-1]:
            return  # readings come in order
        energy_mj, power_w = (nan if told.get(key) is None else float(told[key]) for key in _KEYS)
        self.name = told.get("name", self.name)
        self.at_ns.append(at_ns)
        self.energy_mj.append(energy_mj)
        self.power_w.append(power_w)

    def counted_j(self, begins: Floats, ends: Floats) -> Floats:
        """By the counter; NaN where readings are too far apart or it began anew."""
        values = np.array(self.energy_mj) / _MJ_PER_J
        kept = ~np.isnan(values)
        at, values = np.array(self.at_ns, dtype=np.float64)[kept], values[kept]
        if len(at) < 2:
            return np.full(len(begins), np.nan)
        broken = np.concatenate([[0.0], np.cumsum(np.diff(values) < 0.0)])
        return _between(at, values, broken, begins, ends, inside=False)

    def integrated_j(self, begins: Floats, ends: Floats) -> Floats:
        """By its power, trapezoids between readings; NaN where any of them are too far apart."""
        values = np.array(self.power_w)
        kept = ~np.isnan(values)
        at, values = np.array(self.at_ns, dtype=np.float64)[kept], values[kept]
        if len(at) < 2:
            return np.full(len(begins), np.nan)
        steps_s = np.diff(at) / 1e9
        used = np.concatenate([[0.0], np.cumsum(steps_s * (values[1:] + values[:-1]) / 2.0)])
        return _between(at, used, np.zeros(len(at)), begins, ends, inside=True)


def _between(
    at: Floats, values: Floats, broken: Floats, begins: Floats, ends: Floats, inside: bool
) -> Floats:
    """The rise of a curve between instants.

    `broken` counts breaks up to each reading.  `inside`: also readings between the instants must be near.
    """
    gaps = np.diff(at) > MOST_APART_S * 1e9
    far = np.concatenate([[0.0], np.cumsum(gaps)])
    is_known = (begins >= at[0]) & (ends <= at[-1])
    around = []  # of each instant, the readings before and after it: the same where it is a reading's
    for edges in (begins, ends):
        after = np.clip(np.searchsorted(at, edges, side="left"), 1, len(at) - 1)
        is_reading = at[after] == edges
        is_known &= is_reading | ~gaps[after - 1]
        around.append((np.where(is_reading, after, after - 1), after))
    first, last = around[0][0], around[1][1]
    is_known &= broken[first] == broken[last]
    if inside:
        is_known &= far[first] == far[last]
    found: Floats = np.where(is_known, np.interp(ends, at, values) - np.interp(begins, at, values), np.nan)
    return found


@dataclass(frozen=True, slots=True)
class Used:
    """The joules of all GPUs of an arm in each of some slices; NaN where they are not known.

    `source` is "counter" or "power".  `is_valid` False: they are told, and `why` says what speaks against
    them; where none is known `why` says what would mend it.
    """

    joules: Floats
    source: str | None
    is_valid: bool
    why: str | None


@dataclass(frozen=True, slots=True)
class Energy:
    """What all GPUs of an arm used in each of its slices, in joules, by both sources; NaN where not known.

    `unread`: no GPU was read, and what would mend that.
    """

    counted: Floats
    integrated: Floats
    unread: str | None = None

    def and_that(self, others: "Sequence[Energy]") -> "Energy":
        """That of these slices and then of others; read if that of any was."""
        every = [self, *others]
        unread = self.unread if all(one.unread is not None for one in every) else None
        counted, integrated = ([getattr(one, by) for one in every] for by in ("counted", "integrated"))
        return Energy(np.concatenate(counted), np.concatenate(integrated), unread)

    def used(self, rows: NDArray[np.int64]) -> Used:
        """In these slices of them, by the better source, and whether it can be believed."""
        counted, integrated = self.counted[rows], self.integrated[rows]
        if self.unread is not None:
            return Used(counted, None, False, self.unread)
        joules, source = (counted, "counter") if not np.isnan(counted).all() else (integrated, "power")
        missing = float(np.isnan(joules).mean()) if len(joules) else 1.0
        if missing == 1.0:
            why = (
                f"no energy counter and no power were read at most {MOST_APART_S:g} s apart:"
                " set mirror.readings_s to 1, or use GPUs (or a DCGM exporter) that tell them"
            )
            return Used(joules, None, False, why)
        doubt = _doubt(missing, source, counted, integrated)
        return Used(joules, source, doubt is None, doubt)


def _doubt(missing: float, source: str, counted: Floats, integrated: Floats) -> str | None:
    """What speaks against energy of which so much is missing."""
    if missing > MOST_DISAGREEMENT:
        return f"in {missing:.0%} of the time it is not known: readings were missing or too far apart"
    if source == "power":
        return "there is no energy counter to hold the power readings against"
    both = ~np.isnan(counted) & ~np.isnan(integrated)
    if not both.any():
        return "there are no power readings to hold the energy counter against"
    ours, theirs = float(counted[both].sum()), float(integrated[both].sum())
    gap = abs(ours - theirs) / max(ours, theirs, 1e-9)
    return f"energy counter and power readings are {gap:.0%} apart" if gap > MOST_DISAGREEMENT else None


class GpuReadings:
    """Takes readings of arms' GPUs (`Trial(watch_gpus=...)`), in order."""

    def __init__(self) -> None:
        self._arms: dict[str, dict[str, _Series]] = {}
        self._at_once: dict[str, Counter[tuple[str, ...]]] = {}

    def add(self, frame: Mapping[str, Any]) -> None:
        """Takes one reading of one arm; one without its instant is left out.

        ValueError, TypeError, KeyError or AttributeError: it is none.
        """
        at_ns, arm = frame.get("at_ns"), str(frame["arm"])
        if not isinstance(at_ns, int):
            return
        if abs(at_ns) >= _END_OF_TIME_NS:
            raise ValueError("a reading has an instant that fits a clock")
        gpus = self._arms.setdefault(arm, {})
        told = {str(one["uuid"]): one for one in frame["gpus"]}
        for uuid, one in told.items():
            if uuid in gpus or len(gpus) < _MOST_GPUS:
                gpus.setdefault(uuid, _Series()).add(at_ns, one)
        if told:
            known = tuple(sorted(uuid for uuid in told if uuid in gpus))
            self._at_once.setdefault(arm, Counter())[known] += 1

    def names(self, arm: str) -> list[str | None]:
        """The names of the GPUs that it had at once, most of the time; empty where nothing was read."""
        seen = self._at_once.get(arm)
        if not seen:
            return []
        most = max(seen.items(), key=lambda item: (item[1], item[0]))[0]
        return [self._arms[arm][uuid].name for uuid in most]

    def energy(self, arm: str, begins: Floats, ends: Floats) -> Energy:
        """What all its GPUs used in slices of time, given by their instants in ns."""
        gpus = list(self._arms.get(arm, {}).values())
        if not gpus:
            unread = "its GPUs were not read: set its gpus, or dcgm"
            nothing = np.full(len(begins), np.nan)
            return Energy(nothing, nothing, unread)
        wanted = len(self.names(arm))
        return Energy(
            _all_of([gpu.counted_j(begins, ends) for gpu in gpus], wanted),
            _all_of([gpu.integrated_j(begins, ends) for gpu in gpus], wanted),
        )


def _all_of(each: list[Floats], wanted: int) -> Floats:
    """The sum over GPUs, in slices in which as many are known as the arm has."""
    table = np.array(each)
    known = (~np.isnan(table)).sum(axis=0)
    sums: Floats = np.where(known == wanted, np.nansum(table, axis=0), np.nan)
    return sums
