"""What may be said of several candidates at once?  Who differs from the control, who is beaten by another."""

from collections.abc import Mapping, Sequence
from math import inf, log
from typing import Any

import numpy as np

from analysis.measure import LATENCIES, Latency
from analysis.stats.many import e_bh
from analysis.stats.racing import race
from analysis.stats.windows import Windows


def discoveries(candidates: Sequence[Mapping[str, Any]], alpha: float) -> dict[str, list[str]]:
    """Of each latency, the candidates that differ from the control, the clearest first, by e-BH.

    Of those named over all looks, a share of `alpha` is expected to be named falsely at most.  The labels are
    stricter: each holds with alpha over the number of candidates, so that likely none is false.  A candidate
    whose verdict is withheld counts, and is never named.
    """
    found: dict[str, list[str]] = {}
    for latency in LATENCIES:
        said = [candidate["verdicts"][latency] for candidate in candidates]
        evidence = [
            0.0 if verdict["withheld"] is not None else _number(verdict["evidence"]) for verdict in said
        ]
        found[latency] = [candidates[at]["name"] for at in e_bh(evidence, alpha)]
    return found


def beaten(
    windows: Windows | None, ranked: Sequence[Mapping[str, Any]], alpha: float, margin: float
) -> list[dict[str, Any]]:
    """Who is slower than another candidate by more than `margin` (a log), by whom, and since which window.

    By what ranks, among those whose verdict is not withheld.  Over all looks and all pairs of candidates, the
    best is named with chance `alpha` at most.
    """
    verdicts = {candidate["name"]: candidate["verdicts"] for candidate in ranked}
    is_streamed = any(verdict["tpot"]["units"] for verdict in verdicts.values())
    latency: Latency = "tpot" if is_streamed else "e2e"
    names = [name for name, verdict in verdicts.items() if verdict[latency]["withheld"] is None]
    if windows is None or len(names) < 2:
        return []
    table = windows.table([f"{latency} {name}" for name in names])
    table = table[~np.isnan(table).all(axis=1)]  # one that left the race has none from then on
    out = race({name: table[:, at] for at, name in enumerate(names)}, alpha, margin)
    return [{"name": one.name, "by": one.by, "units": one.units} for one in out]


def _number(log10: float | None) -> float:
    """The e-value of its logarithm; 0 where nothing is said yet."""
    if log10 is None:
        return 0.0
    return inf if log10 * log(10.0) > 700.0 else float(10.0**log10)
