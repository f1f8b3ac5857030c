"""How do the arms compare at equal content?  The phase in which all decode the control's tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.given_scores import counted, given_scores
from analysis.measure import LATENCIES, PairRecord
from analysis.standing import verdict_shown
from analysis.stats.contrast import contrast
from analysis.stats.windows import Windows
from analysis.verdict import Label, interval, judge

_ENOUGH_REFUSED = 10  # pairs in a row of which an answer was another than it was told to be


class ForcedPhase:
    """Counts pairs until there are `wanted`, or the engines turn out not to do it.

    The first token of a forced answer finds its prompt cached, in all arms alike, so what is judged is the
    time per token and to the end.
    """

    def __init__(
        self, wanted: int, candidates: Sequence[str], windows: Windows, *, alpha: float, margin: float
    ) -> None:
        self._wanted = wanted
        self._candidates = candidates
        self._windows = windows
        self._alpha = alpha
        self._margin = margin
        self._decided: dict[str, Label] = {}
        self._refused = 0
        self.pairs = 0
        self.why: str | None = None

    @property
    def is_over(self) -> bool:
        """Enough was seen, or there is nothing to see."""
        return self.why is not None or self.pairs >= self._wanted

    def give_up(self, why: str) -> None:
        """No token can be forced."""
        self.why = self.why or why

    def add(self, record: PairRecord) -> None:
        """Takes one pair."""
        answers = [answer for answer in record.answers if answer.fault is None]
        wrong = [answer.arm for answer in answers if answer.forced is not True]
        if wrong:
            self._refused += 1
            if self._refused >= _ENOUGH_REFUSED:
                self.give_up(f"{wrong[0]} answers otherwise than it is told")
            return
        self._refused = 0
        self.pairs += 1
        ours = record.answer("control")
        values: dict[str, float] = {}
        for name in self._candidates:
            theirs = record.answer(name)
            if ours is None or theirs is None:
                continue
            for latency in LATENCIES:
                d = contrast(ours.latency_ms(latency), theirs.latency_ms(latency), ours.fault, theirs.fault)
                if d is not None:
                    values[f"{latency} {name}"] = d
            scores = counted(record.outputs.get(name, {}))
            values |= {f"{metric} {name}": score for metric, score in scores.items()}
        if self._windows.add(record.at_ns, values):
            self._look()

    def _look(self) -> None:
        for series in (f"{latency} {name}" for name in self._candidates for latency in LATENCIES):
            if series not in self._decided:
                label = judge(interval(self._windows.means(series), self._alpha), self._margin)
                if label != "UNDECIDED":
                    self._decided[series] = label

    def show(self) -> dict[str, Any]:
        """JSON-able: how far it is, why it cannot be, and each candidate's verdicts at equal content."""
        return {
            "pairs": self.pairs,
            "wanted_pairs": self._wanted,
            "windows": self._windows.units,
            "why": self.why,
            "candidates": {name: self._verdicts(name) for name in self._candidates},
            "outputs": {name: given_scores(self._windows, name, self._alpha) for name in self._candidates},
        }

    def _verdicts(self, name: str) -> Mapping[str, Any]:
        return {
            latency: verdict_shown(
                self._windows.means(f"{latency} {name}"),
                self._alpha,
                self._margin,
                self._decided.get(f"{latency} {name}"),
                (),
            )
            for latency in ("itl", "tpot", "e2e")
        }
