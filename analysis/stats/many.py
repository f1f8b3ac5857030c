"""What may be claimed of many comparisons at once?  alpha / K, and e-BH for e-values."""

from collections.abc import Sequence


def each_alpha(alpha: float, comparisons: int) -> float:
    """alpha / K (Bonferroni): with it the chance of any false claim among K is at most alpha, however the
    comparisons depend on each other, so a control that all share is no harm."""
    return alpha / max(1, comparisons)


def e_bh(evidence: Sequence[float], alpha: float) -> list[int]:
    """Which of these e-values are discoveries: by index, the strongest first.

    The k strongest, k the largest with e_(k) >= K / (k alpha): the expected share of false ones among them is
    at most alpha under any dependence.  Wang and Ramdas, JRSS B 84(3), 2022.
    """
    total = len(evidence)
    order = sorted(range(total), key=lambda at: (-evidence[at], at))
    found = 0
    for k, at in enumerate(order, start=1):
        if evidence[at] >= total / (k * alpha):
            found = k
    return order[:found]
