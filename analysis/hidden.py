"""Of which latencies is there something to tell?  Where nobody reasons, visible text begins at the TTFT."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
_FIGURES = ("units", "ratio", "lower", "upper")


def hides(candidate: Json) -> bool:
    """Whether its first visible text, or the control's, came later than its first token, in any pair."""
    verdicts = candidate.get("verdicts") or {}
    first, visible = verdicts.get("ttft") or {}, verdicts.get("visible") or {}
    return bool(visible.get("units")) and any(first.get(each) != visible.get(each) for each in _FIGURES)


def told(candidates: Sequence[Json], latencies: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Those of `latencies`, keys with what they are called, that say something of their own."""
    some_hide = any(map(hides, candidates))
    return tuple(one for one in latencies if one[0] != "visible" or some_hide)
