"""What does one pair say about one latency?  The log ratio of two answers, failures included."""

from math import log

CLIP = log(4.0)  # beyond a factor of four a pair says no more than "far slower" or "far faster"

# The shadow itself ended the exchange: that is nobody's fault and says nothing.
NOT_A_FAULT = "cancelled"


def contrast(
    control: float | None, candidate: float | None, control_fault: str | None, candidate_fault: str | None
) -> float | None:
    """D = log(candidate / control), clipped to +-log 4; None where the pair says nothing.

    A failed answer counts against its own arm as if it had taken four times as long, since what is missing
    must not flatter. Where both failed, or the other arm has no such latency, the pair says nothing.
    Exchanging the two arms negates D exactly.
    """
    if NOT_A_FAULT in (control_fault, candidate_fault):
        return None
    if control_fault is not None:
        return None if candidate_fault is not None or candidate is None else -CLIP
    if control is None:
        return None
    if candidate_fault is not None:
        return CLIP
    if candidate is None or control <= 0.0 or candidate <= 0.0:
        return None
    return min(CLIP, max(-CLIP, log(candidate) - log(control)))
