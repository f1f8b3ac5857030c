"""Does a candidate answer golden requests worse than the control?  Paired marks, and how much they say."""

from collections.abc import Mapping
from math import log
from typing import Any, Literal

from analysis.stats.eprocess import evidence, mcnemar_log_evidence, not_worse_log_evidence

_PLACES = {(True, True): 0, (True, False): 1, (False, True): 2, (False, False): 3}

GOLDEN_MARGIN = 0.05  # five answers in a hundred fewer are what must be ruled out

QualityLabel = Literal["WORSE", "BETTER", "UNDECIDED"]


class Quality:
    """The marks of one candidate beside the control's, each golden request counted once.

    Whether a request is answered right depends on the request, and on no other one: each is a unit, and
    McNemar's e-process on the requests that only one of the two got right holds at every look.
    `is_awaited`: marks are to come, because such requests are asked.
    """

    def __init__(self, candidate: str, *, is_awaited: bool = False) -> None:
        self._candidate = candidate
        self._is_awaited = is_awaited
        self._unmarked: set[str] = set()
        self._seen: set[str] = set()
        self._sets: dict[str, list[int]] = {}  # both, only control, only candidate, neither

    def add(self, id: str, passed: Mapping[str, bool | None]) -> None:
        """Takes the marks of one golden request; the first time counts that both have one."""
        ours, theirs = passed.get("control"), passed.get(self._candidate)
        if id in self._seen:
            return
        if ours is None or theirs is None:
            self._unmarked.add(id)
            return
        self._seen.add(id)
        self._unmarked.discard(id)
        counts = self._sets.setdefault(id.partition("/")[0], [0, 0, 0, 0])
        counts[_PLACES[ours, theirs]] += 1

    def show(self, alpha: float) -> dict[str, Any]:
        """JSON-able: the paired table, in all and by set, the e-value and what follows from it at `alpha`.

        `not_worse`: it is shown, at any look, that it gets at most `margin` fewer of all requests right.
        `unmarked`: so many more were asked, and of an arm's answer there was no word.
        """
        total = [sum(column) for column in zip(*self._sets.values(), strict=True)] or [0, 0, 0, 0]
        log_e = mcnemar_log_evidence(total[2], total[1])
        log_no_worse = not_worse_log_evidence(total[0] + total[3], total[1], total[2], GOLDEN_MARGIN)
        label: QualityLabel = "UNDECIDED"
        if log_e >= log(1.0 / alpha):
            label = "WORSE" if total[1] > total[2] else "BETTER"
        return {
            "awaited": self._is_awaited or bool(self._seen or self._unmarked),
            **_table(total),
            "unmarked": len(self._unmarked),
            "e_value": min(evidence(log_e), 1e300),
            "label": label,
            "margin": GOLDEN_MARGIN,
            "not_worse": log_no_worse >= log(1.0 / alpha),
            "sets": {name: _table(counts) for name, counts in sorted(self._sets.items())},
        }


def _table(counts: list[int]) -> dict[str, Any]:
    both, only_control, only_candidate, neither = counts
    requests = sum(counts)
    return {
        "requests": requests,
        "both": both,
        "only_control": only_control,
        "only_candidate": only_candidate,
        "neither": neither,
        "control_passed": (both + only_control) / requests if requests else None,
        "candidate_passed": (both + only_candidate) / requests if requests else None,
    }
