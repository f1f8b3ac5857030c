"""For which reason did answers end, the control's and the other's, pair by pair?  A paired table."""

from collections import Counter
from typing import Any

import numpy as np

from analysis.columns import Bools, Side


class FinishTable:
    """How many answers ended so with the control and so with the other arm."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str]] = Counter()

    def add(self, ours: Side, theirs: Side, compared: Bools) -> None:
        """Takes the pairs that are compared, choice by choice."""
        rows = np.flatnonzero(compared).tolist()
        mine, other = ours.reasons, theirs.reasons
        found = Counter([(mine[row], other[row]) for row in rows])
        for row in ours.more_reasons.keys() & theirs.more_reasons.keys() & set(rows):
            found.update(zip(ours.more_reasons[row], theirs.more_reasons[row], strict=False))
        for (said, other_said), times in found.items():
            self._answers[said or "none", other_said or "none"] += times

    def show(self, floor: "FinishTable") -> list[dict[str, Any]]:
        """JSON-able, a row for each pair of reasons that came with either: how many answers, their share, the
        floor's, and by how much it is beyond that.  None of a share without answers.

        Counts have no interval: that of all that end otherwise is the metric's (`finish_reason`).
        """
        total, floor_total = self._answers.total(), floor._answers.total()
        rows = []
        for ours, theirs in sorted(self._answers.keys() | floor._answers.keys()):
            answers = self._answers[ours, theirs]
            share = answers / total if total else None
            own = floor._answers[ours, theirs] / floor_total if floor_total else None
            rows.append(
                {
                    "control": ours,
                    "candidate": theirs,
                    "answers": answers,
                    "share": share,
                    "floor": own,
                    "excess": None if share is None or own is None else share - own,
                }
            )
        return rows
