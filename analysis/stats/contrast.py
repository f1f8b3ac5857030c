"""What does one pair say about one latency?  The log ratio of two answers, failures included."""

from collections.abc import Iterable
from math import inf, isfinite, log

# A failure counts at least as four times as long: less than what it cost whoever waited for an answer.
PENALTY = log(4.0)

# The shadow itself ended the exchange: that is nobody's fault and says nothing.
NOT_A_FAULT = "cancelled"


def contrast(
    control: float | None, candidate: float | None, control_fault: str | None, candidate_fault: str | None
) -> float | None:
    """D = log(candidate / control); infinite where one of them failed, None where the pair says nothing.

    A failed answer has no latency, and what is missing must not flatter: it takes the worst rank, against its
    own arm (`worst_rank` makes a number of it).  Where both failed, or the other arm has no such latency, the
    pair says nothing.  Exchanging the two arms negates D exactly.
    """
    if NOT_A_FAULT in (control_fault, candidate_fault):
        return None
    if control_fault is not None:
        return None if candidate_fault is not None or candidate is None else -inf
    if control is None:
        return None
    if candidate_fault is not None:
        return inf
    if candidate is None or control <= 0.0 or candidate <= 0.0:
        return None
    return log(candidate) - log(control)


def worst_rank(top: float, bottom: float) -> tuple[float, float]:
    """What a failure of the candidate counts, and one of the control, among answers of these extremes.

    As much as the slowest that did answer, and at least `PENALTY`: so no candidate gains by failing what
    would have been slow, unless it would have been slower than all that it answered.
    """
    return max(PENALTY, top), min(-PENALTY, bottom)


def ranked(values: Iterable[float]) -> list[float]:
    """The contrasts with numbers in place of failures, in their order."""
    kept = list(values)
    finite = [value for value in kept if isfinite(value)]
    worse, better = worst_rank(max(finite, default=-inf), min(finite, default=inf))
    return [value if isfinite(value) else worse if value > 0 else better for value in kept]
