"""Are two answers in the same script?"""

import re
from dataclasses import dataclass

from analysis.metrics._metric import Metric, Symmetry, Unit, average, matched
from analysis.transcript import Content

_SCRIPTS = {
    "latin": re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]"),
    "greek": re.compile("[\u0370-\u03ff]"),
    "cyrillic": re.compile("[\u0400-\u052f]"),
    "hebrew": re.compile("[\u0590-\u05ff]"),
    "arabic": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "indic": re.compile("[\u0900-\u0dff]"),
    "thai": re.compile("[\u0e00-\u0e7f]"),
    "chinese": re.compile("[\u3400-\u9fff]"),
    "kana": re.compile("[\u3040-\u30ff]"),
    "hangul": re.compile("[\u1100-\u11ff\uac00-\ud7af]"),
}


@dataclass(frozen=True, slots=True)
class Params:
    """`cap_chars`: only the beginning of an answer is looked at."""

    cap_chars: int = 8192


@dataclass(frozen=True, slots=True)
class Language:
    """How much the scripts of two answers' letters overlap: 1 the same, 0 none; mean over choices.

    One that switches to Chinese is seen; one that goes from English to German is not: both are Latin.
    """

    cap_chars: int

    same: float = 1.0
    symmetry: Symmetry = "even"
    unit: Unit = "share"

    def score(self, control: Content, candidate: Content) -> float | None:
        scores = []
        for ours, theirs in matched(control, candidate):
            if ours.text == theirs.text:
                scores.append(1.0)
                continue
            a, b = scripts(ours.text[: self.cap_chars]), scripts(theirs.text[: self.cap_chars])
            if a and b:
                scores.append(sum(min(share, b.get(script, 0.0)) for script, share in a.items()))
        return average(scores)


def build(params: Params) -> Metric:
    """The metric with these parameters."""
    return Language(params.cap_chars)


def scripts(text: str) -> dict[str, float]:
    """The share of each script in a text's letters; empty without any."""
    if text.isascii():
        return {"latin": 1.0} if any(map(str.isalpha, text)) else {}
    counts = {script: len(letters.findall(text)) for script, letters in _SCRIPTS.items()}
    total = sum(counts.values())
    return {script: n / total for script, n in counts.items() if n}
