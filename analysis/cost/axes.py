"""Which arm is the cheaper in the same window?  Cost and energy as log ratios to the control's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.columns import logs
from analysis.cost.figures import Recorded
from analysis.cost.slices import Floats, Ints, Slices
from analysis.verdict import interval, ratio


@dataclass(frozen=True, slots=True)
class Axis:
    """One more measure by which arms are compared: of each candidate the log ratio by window, NaN where there
    is none.  `withheld`: why it is no axis, else None."""

    name: str
    effects: dict[str, Floats]
    withheld: str | None

    def of(self, arm: str, windows: int) -> Floats:
        """An arm's log ratios; the control's own are 0."""
        return np.zeros(windows) if arm == "control" else self.effects[arm]

    def show(self, alpha: float) -> dict[str, Any]:
        """JSON-able: each candidate's ratio to the control with its interval."""
        found = {name: _shown(values, alpha) for name, values in self.effects.items()}
        return {"name": self.name, "candidates": found, "withheld": self.withheld}


def axes(recorded: Recorded, candidates: Sequence[str], numbers: Ints) -> list[Axis]:
    """Cost and energy for each request that was answered within the SLO (where there is none, without a
    fault), in the windows of these numbers.

    By request, not by token: all arms get the same requests, and a candidate that answers at greater length
    is not the cheaper for it.  An axis is one for all arms or for none.
    """
    slices = {arm: recorded.tally.of(arm) for arm in ("control", *candidates)}
    join, window_ns = recorded.join, recorded.window_ns
    if join > 1:
        slices = {arm: _blocks(own, join) for arm, own in slices.items()}
        numbers, windows = np.unique(numbers // join, return_counts=True)
        numbers = numbers[windows >= join / 2]  # of others half or more is pause
    slices = {arm: own.at(numbers) for arm, own in slices.items()}
    if window_ns is not None:
        slices = {arm: own.timed(window_ns * join) for arm, own in slices.items()}
    return [_cost(recorded, slices), _energy(recorded, slices)]


def _cost(recorded: Recorded, slices: Mapping[str, Slices]) -> Axis:
    bills = {arm: recorded.bill(arm) for arm in slices}
    for arm, one in bills.items():
        if one.per_hour is None:
            whose = "" if recorded.prices is None else f"{arm}: "
            return Axis("cost", {}, f"{whose}{one.per_hour_why}")
    prices = {arm: float(one.per_hour or 0.0) for arm, one in bills.items()}
    if not all(prices.values()):
        return Axis("cost", {}, "an arm costs nothing, so that no ratio can be told")
    return _axis("cost", {arm: prices[arm] / _good(own) for arm, own in slices.items()})


def _energy(recorded: Recorded, slices: Mapping[str, Slices]) -> Axis:
    each: dict[str, Floats] = {}
    for arm, own in slices.items():
        used = recorded.energy(arm, own).used(np.arange(len(own)))
        if not used.is_valid:
            return Axis("energy", {}, f"{arm}: {used.why}")
        each[arm] = used.joules / _good(own)
    return _axis("energy", each)


def _axis(name: str, each: Mapping[str, Floats]) -> Axis:
    """Of what each arm's request costs in each window."""
    ours = logs(each["control"])
    return Axis(name, {arm: logs(own) - ours for arm, own in each.items() if arm != "control"}, None)


def _good(slices: Slices) -> Floats:
    """Requests answered well by window, and half a one, so that there is a ratio where there was none."""
    return np.where(slices.of("requests") > 0, slices.of("good") + 0.5, np.nan)


def _blocks(slices: Slices, join: int) -> Slices:
    """So many consecutive windows as one, whose number is theirs divided by that."""
    found = slices.joined(np.flatnonzero(np.diff(slices.of("number") // join, prepend=-1)))
    return Slices(np.vstack([found.table[:1] // join, found.table[1:]]))


def _shown(values: Floats, alpha: float) -> dict[str, Any]:
    known = values[~np.isnan(values)]
    found = interval(known, alpha)
    if found is None:
        return {"ratio": None, "lower": None, "upper": None, "units": len(known)}
    low, high = ratio(found.lower), ratio(found.upper)
    return {"ratio": ratio(found.mean), "lower": low, "upper": high, "units": found.units}
