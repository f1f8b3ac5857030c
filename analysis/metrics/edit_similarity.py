"""How alike are two answers, letter by letter?"""

from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched, spoken
from analysis.transcript import Content


@dataclass(frozen=True, slots=True)
class Params:
    """`cap_chars`: only the beginning of an answer is compared, since the cost grows with the square."""

    cap_chars: int = 4096


@dataclass(frozen=True, slots=True)
class EditSimilarity:
    """1 - Levenshtein / longer answer, mean over choices."""

    cap_chars: int

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        scores = []
        for ours, theirs in matched(control, candidate):
            a, b = spoken(ours)[: self.cap_chars], spoken(theirs)[: self.cap_chars]
            if a == b:
                scores.append(1.0)
                continue
            scores.append(Levenshtein.normalized_similarity(a, b))
        return average(scores)


def build(params: Params) -> Metric:
    """The metric with these parameters."""
    return EditSimilarity(params.cap_chars)
