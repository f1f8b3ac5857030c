"""Which arm is the cheaper in the same window?  Cost and energy as log ratios to the control's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.cost.energy import Floats
from analysis.cost.figures import Recorded
from analysis.cost.tally import Slice
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


def axes(recorded: Recorded, candidates: Sequence[str], numbers: Sequence[int]) -> list[Axis]:
    """Cost and energy for each request that was answered within the SLO (where there is none, without a
    fault), in the windows of these numbers.

    By request, not by token: all arms get the same requests, and a candidate that answers at greater length
    is not the cheaper for it.  An axis is one for all arms or for none.
    """
    return [_cost(recorded, candidates, numbers), _energy(recorded, candidates, numbers)]


def _cost(recorded: Recorded, candidates: Sequence[str], numbers: Sequence[int]) -> Axis:
    bills = {arm: recorded.bill(arm) for arm in ("control", *candidates)}
    withheld = next((one.per_hour_why for one in bills.values() if one.per_hour is None), None)
    if withheld is not None:
        return Axis("cost", {}, withheld)
    prices = {arm: float(one.per_hour or 0.0) for arm, one in bills.items()}
    if not all(prices.values()):
        return Axis("cost", {}, "an arm costs nothing, so that no ratio can be told")
    ours = _good(recorded, "control", numbers)
    return Axis(
        "cost",
        {
            name: np.log(prices[name] / prices["control"]) + np.log(ours / _good(recorded, name, numbers))
            for name in candidates
        },
        None,
    )


def _energy(recorded: Recorded, candidates: Sequence[str], numbers: Sequence[int]) -> Axis:
    each: dict[str, Floats] = {}
    for arm in ("control", *candidates):
        known = recorded.tally.by_window(arm)
        slices = [_timed(known.get(number), number, recorded.window_ns) for number in numbers]
        used = recorded.used(arm, slices)
        if not used.is_valid:
            return Axis("energy", {}, f"{arm}: {used.why}")
        each[arm] = used.joules / _good(recorded, arm, numbers)
    with np.errstate(divide="ignore", invalid="ignore"):
        effects = {name: np.log(each[name] / each["control"]) for name in candidates}
    return Axis("energy", {name: np.where(np.isfinite(e), e, np.nan) for name, e in effects.items()}, None)


def _good(recorded: Recorded, arm: str, numbers: Sequence[int]) -> Floats:
    """Requests answered well by window, and half a one, so that there is a ratio where there was none."""
    known = recorded.tally.by_window(arm)
    return np.array([known[n].good + 0.5 if n in known else np.nan for n in numbers], dtype=np.float64)


def _timed(one: Slice | None, number: int, window_ns: int | None) -> Slice:
    """With the instants of its window, where windows are of the clock."""
    if window_ns is not None:
        return Slice(number, number * window_ns, (number + 1) * window_ns)
    return one or Slice(number)


def _shown(values: Floats, alpha: float) -> dict[str, Any]:
    known = values[~np.isnan(values)]
    found = interval(known, alpha)
    if found is None:
        return {"ratio": None, "lower": None, "upper": None, "units": len(known)}
    low, high = ratio(found.lower), ratio(found.upper)
    return {"ratio": ratio(found.mean), "lower": low, "upper": high, "units": found.units}
