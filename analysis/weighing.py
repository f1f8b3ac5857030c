"""By what are candidates weighed against each other?  One score of the latencies that matter."""

from collections.abc import Mapping
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.measure import Latency

Json = Mapping[str, Any]
Weights = Mapping[Latency, float]


def usual(*, is_streamed: bool) -> dict[Latency, float]:
    """The first token and each further one count alike; where nothing is streamed, the whole answer."""
    return {"ttft": 1.0, "tpot": 1.0} if is_streamed else {"e2e": 1.0}


def weighted(effects: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each window's score: the mean of its log ratios, weighted; below 0 is better than the control.

    NaN where the window has none of one objective.
    """
    scores: NDArray[np.float64] = effects @ (weights / weights.sum())
    return scores


def score(candidate: Json, weights: Weights) -> float | None:
    """A candidate's score by its verdicts' estimates, a log; None where one of them has none."""
    ratios = [candidate["verdicts"][latency]["ratio"] for latency in weights]
    if any(ratio is None for ratio in ratios):
        return None
    logs = (weight * log(ratio) for weight, ratio in zip(weights.values(), ratios, strict=True))
    return sum(logs) / sum(weights.values())


def units(candidate: Json, weights: Weights) -> int:
    """How many windows it has of what matters, where it has fewest."""
    found: int = min(candidate["verdicts"][latency]["units"] for latency in weights)
    return found


def is_withheld(candidate: Json, weights: Weights) -> bool:
    """Whether the verdict of one of them is."""
    return any(candidate["verdicts"][latency]["withheld"] is not None for latency in weights)


def words(weights: Weights) -> str:
    """`TPOT`, `TTFT and TPOT alike`, or `2 TTFT and 1 TPOT`."""
    if len(set(weights.values())) == 1:
        return " and ".join(map(str.upper, weights)) + (" alike" if len(weights) > 1 else "")
    return " and ".join(f"{weight:g} {latency.upper()}" for latency, weight in weights.items())
