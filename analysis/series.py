"""What do pairs add to the windows?  A column of numbers for each series: contrasts of latencies, scores."""

from collections.abc import Sequence
from math import inf

import numpy as np

from analysis.columns import Columns, Floats, Side
from analysis.measure import LATENCIES, Latency
from analysis.metrics._choose import every_metric
from analysis.score_intervals import cut


def series(columns: Columns, candidates: Sequence[str]) -> dict[str, Floats]:
    """Of each candidate, "latency candidate" and "metric candidate"; NaN where a pair says nothing."""
    ours = columns.side("control")
    metrics, found = every_metric(), {}
    for name in candidates:
        theirs = columns.side(name)
        both = ours.present & theirs.present
        if not both.any():
            continue
        for latency in LATENCIES:
            found[f"{latency} {name}"] = contrasts(ours, theirs, latency)
        for metric, scores in columns.outputs(name).items():
            counted = cut(scores, metrics[metric].unit) if metric in metrics else scores
            found[f"{metric} {name}"] = np.where(both, counted, np.nan)
    return found


def contrasts(ours: Side, theirs: Side, latency: Latency) -> Floats:
    """`analysis.stats.contrast.contrast` of one latency of every pair; NaN for None.

    Where one answer came to text and the other, which did not fail, never did, that takes the worst rank of
    what is visible: else reasoning without an end would be missing, and flatter.
    """
    found = np.where(ours.ok & theirs.ok, theirs.log_latency(latency) - ours.log_latency(latency), np.nan)
    # What the shadow itself cancelled is marked as failed, and says nothing.
    worse = theirs.missed(latency) & ~theirs.cancelled & ours.ok & ~np.isnan(ours.latency_ms(latency))
    better = ours.missed(latency) & ~ours.cancelled & theirs.ok & ~np.isnan(theirs.latency_ms(latency))
    found[worse], found[better] = inf, -inf
    return found
