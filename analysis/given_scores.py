"""How far are distributions apart over tokens that were given?  What the forced and the scored phase say."""

from collections.abc import Mapping
from typing import Any

from analysis.metrics._choose import LOGPROB_METRICS, every_metric
from analysis.outputs import excess_shown, output_shown
from analysis.score_intervals import cut_one, score_interval, why_no_interval
from analysis.stats.windows import Windows


def counted(scores: Mapping[str, float]) -> dict[str, float]:
    """The logprob measures of one answer, as far as they count (`MOST`)."""
    metrics = every_metric()
    return {name: cut_one(scores[name], metrics[name].unit) for name in LOGPROB_METRICS if name in scores}


def given_scores(windows: Windows, candidate: str, alpha: float) -> dict[str, Any]:
    """Each logprob measure of "metric candidate" in these windows, with its interval or why there is none.

    Where pairs have "metric control", too, that is the floor, and "metric excess of candidate" what is
    beyond it: pair by pair, so the interval is that of the differences.  JSON-able.
    """
    shown: dict[str, Any] = {}
    for name in LOGPROB_METRICS:
        unit = every_metric()[name].unit
        found, floor, excess = (
            score_interval(windows.means(series), unit, windows.pairs_per_unit(series), alpha)
            for series in (f"{name} {candidate}", f"{name} control", f"{name} excess of {candidate}")
        )
        why = why_no_interval(0 if found is None else found.units)
        shown[name] = output_shown(unit, found, None, why)
        if floor is not None:
            shown[name]["floor"] = output_shown(unit, floor, None)["value"]
        if excess is not None and why_no_interval(excess.units) is None:
            shown[name]["excess"] = excess_shown(unit, excess.mean, excess.lower, excess.upper)
    return shown
