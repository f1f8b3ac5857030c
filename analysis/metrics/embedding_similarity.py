"""How alike are two answers in meaning, as a model of text embeddings has it?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from types import MappingProxyType

from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched, spoken
from analysis.transcript import Content

Vector = Sequence[float]


@dataclass(frozen=True, slots=True)
class Params:
    """`vectors` of texts, by text: whoever compares has asked for those of `texts` before.

    `cap_chars`: only the beginning of an answer is compared, for embedding models read only so much.
    """

    vectors: Mapping[str, Vector] = field(default_factory=lambda: MappingProxyType({}))
    cap_chars: int = 8192


@dataclass(frozen=True, slots=True)
class EmbeddingSimilarity:
    """The cosine of the angle between both answers' vectors, 0 where it is negative; mean over choices.

    Equal texts are 1 without a vector, and a text beside none is 0.  None where a vector is missing.
    """

    vectors: Mapping[str, Vector]
    cap_chars: int

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        scores = []
        for a, b in _texts(control, candidate, self.cap_chars):
            if a == b:
                scores.append(1.0)
            elif not a or not b:
                scores.append(0.0)
            elif a in self.vectors and b in self.vectors:
                scores.append(_cosine(self.vectors[a], self.vectors[b]))
            else:
                return None
        return average(scores)


def texts(control: Content, candidate: Content, cap_chars: int) -> set[str]:
    """Those whose vectors a comparison of these two needs."""
    pairs = [pair for pair in _texts(control, candidate, cap_chars) if all(pair) and pair[0] != pair[1]]
    return {text for pair in pairs for text in pair}


def build(params: Params) -> Metric:
    """The metric with these vectors."""
    return EmbeddingSimilarity(params.vectors, params.cap_chars)


def _texts(control: Content, candidate: Content, cap_chars: int) -> Iterator[tuple[str, str]]:
    for ours, theirs in matched(control, candidate):
        yield spoken(ours)[:cap_chars], spoken(theirs)[:cap_chars]


def _cosine(a: Vector, b: Vector) -> float:
    """Between 0 and 1; 0 for a vector without a length, which has no direction."""
    product = sum(x * y for x, y in zip(a, b, strict=True))
    lengths = sqrt(sum(x * x for x in a)) * sqrt(sum(y * y for y in b))
    return min(1.0, max(0.0, product / lengths)) if lengths else 0.0
