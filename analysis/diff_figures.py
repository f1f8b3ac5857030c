"""How do a candidate's answers differ, counted?  Divergence per token, by length, by finish reason."""

from typing import Any

from analysis.measure import AnswerMeasure, PairRecord

# Answers that are as long as the control's are compared with one another: exact matches fall with length.
BANDS = (16, 64, 256, 1024)


class DiffFigures:
    """Counts over the pairs of the control's twin 0 and one other answer; both must have succeeded."""

    def __init__(self, arm: str, twin: int = 0) -> None:
        self._arm, self._twin = arm, twin
        self._diverged = 0.0
        self._compared = 0.0
        self._bands = [[0, 0.0] for _ in range(len(BANDS) + 1)]  # pairs, and how many of them were the same
        self._reasons: dict[tuple[str, str], int] = {}

    def add(self, record: PairRecord) -> None:
        """Takes one pair."""
        ours, theirs = record.answer("control"), record.answer(self._arm, self._twin)
        scores = record.outputs.get(self._arm)
        if ours is None or theirs is None or scores is None:
            return
        same, compared = scores.get("exact_match"), record.compared_tokens.get(self._arm)
        if same is not None and compared is not None:
            self._diverged += 1.0 - same
            self._compared += compared
        if same is not None and ours.completion_tokens is not None:
            band = self._bands[sum(ours.completion_tokens > bound for bound in BANDS)]
            band[0] += 1
            band[1] += same
        for pair in zip(_reasons(ours), _reasons(theirs), strict=False):
            self._reasons[pair] = self._reasons.get(pair, 0) + 1

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


def _reasons(answer: AnswerMeasure) -> list[str]:
    return [reason or "none" for reason in (answer.finish_reason, *answer.more_reasons)]
