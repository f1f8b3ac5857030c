"""How do a candidate's answers differ, counted?  Divergence per token, by length, by finish reason."""

from collections import Counter
from typing import Any

import numpy as np

from analysis.columns import Columns, Side, added

# Answers that are as long as the control's are compared with one another: exact matches fall with length.
BANDS = (16, 64, 256, 1024)


class DiffFigures:
    """Counts over the pairs of the control's twin 0 and one other answer; both must have succeeded."""

    def __init__(self, arm: str, twin: int = 0) -> None:
        self._arm, self._twin = arm, twin
        self._diverged = 0.0
        self._compared = 0.0
        self._bands = [[0, 0.0] for _ in range(len(BANDS) + 1)]  # pairs, and how many of them were the same
        self._reasons: Counter[tuple[str, str]] = Counter()

    def add(self, columns: Columns) -> None:
        """Takes pairs."""
        ours, theirs = columns.side("control"), columns.side(self._arm, self._twin)
        scored = columns.scored(self._arm) & ours.present & theirs.present
        same = columns.output(self._arm, "exact_match")
        compared = columns.compared_tokens(self._arm)
        counted = scored & ~np.isnan(same) & ~np.isnan(compared)
        self._diverged = added(self._diverged, 1.0 - same[counted])
        self._compared = added(self._compared, compared[counted])
        tokens = ours.number("completion_tokens")
        timed = scored & ~np.isnan(same) & ~np.isnan(tokens)
        which = np.searchsorted(BANDS, tokens[timed])
        for number, band in enumerate(self._bands):
            values = same[timed][which == number]
            band[0] += len(values)
            band[1] = added(band[1], values)
        self._count_reasons(ours, theirs, np.flatnonzero(scored).tolist())

    def _count_reasons(self, ours: Side, theirs: Side, rows: list[int]) -> None:
        mine, other = ours.reasons, theirs.reasons
        found = Counter([(mine[row], other[row]) for row in rows])
        for row in ours.more_reasons.keys() & theirs.more_reasons.keys() & set(rows):
            found.update(zip(ours.more_reasons[row], theirs.more_reasons[row], strict=False))
        for (said, other_said), times in found.items():
            self._reasons[said or "none", other_said or "none"] += times

    @property
    def hazard(self) -> float | None:
        """The chance that a token is the first to differ, given that none before it did; None without any."""
        return self._diverged / self._compared if self._compared else None

    def show(self, floor: "DiffFigures") -> dict[str, Any]:
        """JSON-able, each figure beside the floor's: what the control gives against itself."""
        return {
            "divergence": {
                "per_token": self.hazard,
                "tokens": round(self._compared),
                "floor": floor.hazard,
                "floor_tokens": round(floor._compared),
            },
            "by_length": [
                {
                    "tokens": _band(number),
                    "pairs": pairs,
                    "exact_match": same / pairs if pairs else None,
                    "floor": floor_same / floor_pairs if floor_pairs else None,
                }
                for number, ((pairs, same), (floor_pairs, floor_same)) in enumerate(
                    zip(self._bands, floor._bands, strict=True)
                )
                if pairs or floor_pairs
            ],
            "finish_reasons": self._table(),
            "floor_finish_reasons": floor._table(),
        }

    def _table(self) -> list[dict[str, Any]]:
        return [
            {"control": ours, "candidate": theirs, "answers": n}
            for (ours, theirs), n in sorted(self._reasons.items())
        ]


def _band(number: int) -> str:
    low = BANDS[number - 1] + 1 if number else 1
    return f"{low}-{BANDS[number]}" if number < len(BANDS) else f"{low} and more"
