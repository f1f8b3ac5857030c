"""By what are candidates weighed against the control?  Latencies, cost and energy, window by window."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.cost.axes import Axis
from analysis.measure import LATENCIES, Latency
from analysis.stats.windows import Windows

Measure = Latency | Literal["cost", "energy"]
MEASURES: Final[tuple[Measure, ...]] = (*LATENCIES, "cost", "energy")
Json = Mapping[str, Any]


class WeightError(ValueError):
    """Something is to be weighed of which nothing can be said; the one-line text says what would mend it."""


def parse_weight(text: str) -> tuple[Measure, float]:
    """`tpot=2`: a measure and how much it counts.  ValueError says in one line what would do."""
    name, _, number = text.partition("=")
    measure = next((one for one in MEASURES if one == name.strip()), None)
    try:
        weight = float(number)
    except ValueError:
        weight = 0.0
    if measure is None or not 0.0 < weight < float("inf"):
        raise ValueError(
            f"--weight {text!r}: write a measure ({', '.join(MEASURES)}) and a number above 0, as in tpot=2"
            " or cost=0.5"
        )
    return measure, weight


def refuse_unknown(weights: Mapping[Measure, float], axes: Sequence[Axis]) -> None:
    """WeightError where cost or energy is weighed and not known of all arms."""
    withheld = {axis.name: axis.withheld for axis in axes if axis.withheld is not None}
    for measure, weight in weights.items():
        if measure in withheld:
            raise WeightError(f"--weight {measure}={weight:g}: {measure} is not known: {withheld[measure]}")


def effects(
    windows: Windows | None, candidates: Sequence[str], measures: Sequence[str], axes: Sequence[Axis]
) -> dict[str, NDArray[np.float64]]:
    """Of each arm, the log ratios to the control by window (rows) and measure (columns); its own are 0.

    NaN where there is none.  Of the axes only those that are not withheld may be asked for.
    """
    known = {axis.name: axis.effects for axis in axes}
    latencies = [one for one in measures if one not in known]
    series = [f"{latency} {name}" for name in candidates for latency in latencies]
    table = np.empty((0, len(series))) if windows is None else windows.table(series)
    columns = dict(zip(series, table.T, strict=True))
    found = {"control": np.zeros((len(table), len(measures)))}
    for name in candidates:
        own = [known[one][name] if one in known else columns[f"{one} {name}"] for one in measures]
        found[name] = np.column_stack(own)
    return found


def word(measure: str) -> str:
    """As it is written in tables."""
    return measure.upper() if measure in LATENCIES else measure


def estimate(found: Json, candidate: Json, measure: str) -> Json:
    """The ratio of a candidate of a decision to the control by one measure, with its interval."""
    if measure in LATENCIES:
        verdict: Json = candidate["verdicts"][measure]
        return verdict
    axis = next(axis for axis in found["cost"]["axes"] if axis["name"] == measure)
    said: Json = axis["candidates"][candidate["name"]]
    return said
