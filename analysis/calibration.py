"""How much does the control differ from itself?  The A/A phase, and what it fixes."""

from dataclasses import dataclass, field
from math import ceil, inf, isfinite, sqrt
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.diffs.by_length import band_of, series_of
from analysis.diffs.hazard import HAZARD, linearised
from analysis.measure import LATENCIES, PairRecord
from analysis.metrics._choose import every_metric
from analysis.score_intervals import MOST
from analysis.spec import ExperimentSpec
from analysis.stats.contrast import NOT_A_FAULT, contrast, ranked
from analysis.stats.correlation import autocorrelation_time, longest_autocorrelation_time
from analysis.stats.sequence import asymptotic_radius
from analysis.verdict import Spread

_TAUS_PER_WINDOW = 5.0
_PAIRS_PER_WINDOW = 8.0  # so that few windows fall below the five pairs they need
_TAUS_PER_CALIBRATION = 20.0  # fewer do not show how long the dependence is
_LONGEST = 5  # but a calibration is at most so many times as long as asked for
SLOW = 0.95  # an answer is slow where it takes longer than this share of the control's did
_FEWEST_FOR_SLOW = 100  # answers of the control that fix what is slow
DIVERGENCE = "first_divergence"  # the score that a label goes by
_AA_ALPHA = 0.01  # a fair comparison is called unfair so often at most
_DEPENDS = 2.0  # a tau from which on neighbours do depend, and what is found of it may be much too short
_SPANS = 4  # of the calibration, long against the dependence: their means show it all the same
_STUDENT_3 = 7.453  # of so many spans less one, two-sided, for half of `_AA_ALPHA`


# How the control is held against itself: "engine", where a second engine of its configuration gets the
# same copies; "twins", where each copy of half of the conversations is sent twice to all arms alike, the
# second with a cache salt of its own; "slots", where arms take turns, and the control has the candidates'
# slots, too.
AgainstItself = Literal["engine", "twins", "slots"]


def pairs_to_see(tau: float, asked: int) -> float:
    """How many pairs a calibration takes to see the dependence; at most five times those asked for."""
    return min(max(asked, _TAUS_PER_CALIBRATION * tau), _LONGEST * asked)


def next_look(pairs: int, asked: int) -> int:
    """After how many pairs it is looked again whether they are enough: twice as many, or the most needed."""
    most = _LONGEST * asked
    return min(2 * pairs, most) if pairs < most else 2 * pairs


def tau_of_scores(values: NDArray[np.float64]) -> float:
    """How long scores depend on each other; where they do at all, the longest that it may be: in few values
    runs look too short.  Infinite where none differs: no run of others was seen, however long they are."""
    if not values.any():
        return inf
    tau = autocorrelation_time(values)
    return tau if tau < _DEPENDS else longest_autocorrelation_time(values)


def pairs_per_window(longest_tau: float) -> float:
    """How many pairs a window holds on average, so that windows hardly depend on each other."""
    return max(_TAUS_PER_WINDOW * longest_tau, _PAIRS_PER_WINDOW)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the A/A phase fixed: `aa`, the control's latencies against its own (logs), `floor` its outputs.

    `settle_ns` is how long after its dispatch nearly every pair is answered; `slow_ms`, of each latency, what
    one in twenty of the control's answers took longer than; `by`, how the control was held against itself.
    """

    window_ns: int
    settle_ns: int
    tau_pairs: float
    pairs: int
    aa: dict[str, Spread]
    floor: dict[str, Spread]
    slow_ms: dict[str, float] = field(default_factory=dict)
    by: AgainstItself = "twins"

    def to_map(self) -> dict[str, Any]:
        """Plain values for the log; `from_map` is the exact inverse."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_map(cls, values: Any) -> "Calibration":
        """The inverse of `to_map`; msgspec.ValidationError when `values` is not such a map."""
        return msgspec.convert(values, cls)


class Calibrating:
    """The A/A phase while it lasts, judged by the records' own instants."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._latencies: dict[str, list[tuple[int, str, float]]] = {name: [] for name in LATENCIES}
        self._scores: dict[str, list[tuple[int, str, float]]] = {name: [] for name in every_metric()}
        self._control_ms: dict[str, list[float]] = {name: [] for name in LATENCIES}
        self._parted: list[tuple[int, str, float, float]] = []  # whether, of how many tokens that could have
        self._durations_ns: list[int] = []
        self._first_ns: int | None = None
        self._last_ns = 0
        self._by: AgainstItself = "engine" if spec.twin else "twins"
        self._next_look = 0
        self.pairs = 0

    def add(self, record: PairRecord) -> None:
        """Takes one pair of the phase."""
        self.pairs += 1
        if record.block is not None:
            self._by = "slots"
        self._first_ns = record.at_ns if self._first_ns is None else min(self._first_ns, record.at_ns)
        self._last_ns = max(self._last_ns, record.at_ns)
        ends = [answer.end_ns for answer in record.answers]
        self._durations_ns.append(max(ends, default=record.at_ns) - record.at_ns)
        once, again = record.answer("control", 0), record.answer("control", 1)
        if once is None or again is None:
            return
        for latency in LATENCIES:
            mine, other = once.fault_of(latency), again.fault_of(latency)
            for answer, fault in ((once, mine), (again, other)):
                value = answer.latency_ms(latency) if fault is None else inf
                if value is not None and fault != NOT_A_FAULT:
                    self._control_ms[latency].append(value)
            d = contrast(once.latency_ms(latency), again.latency_ms(latency), mine, other)
            if d is not None:
                self._latencies[latency].append((record.at_ns, record.id, d))
        scores = dict(record.outputs.get("control", {}))
        same, compared = scores.get("exact_match"), record.compared_tokens.get("control")
        if same is not None and compared is not None:
            self._parted.append((record.at_ns, record.id, 1.0 - same, compared))
        if same is not None and once.completion_tokens is not None:
            scores[series_of(band_of(once.completion_tokens))] = same
        for metric, score in scores.items():
            self._scores.setdefault(metric, []).append((record.at_ns, record.id, score))

    @property
    def elapsed_s(self) -> float:
        """From the first pair's dispatch to the last one's."""
        return 0.0 if self._first_ns is None else (self._last_ns - self._first_ns) / 1e9

    @property
    def wanted_pairs(self) -> int:
        """After how many pairs it may end: those asked for, or, where these were too few, the next look."""
        return max(self._spec.calibration_pairs, self._next_look)

    @property
    def progress(self) -> float:
        """0 to 1, of the seconds and pairs asked for, or of the pairs that are wanted since."""
        seconds = min(1.0, self.elapsed_s / self._spec.calibration_s) if self._spec.calibration_s else 1.0
        pairs = min(1.0, self.pairs / self.wanted_pairs) if self.wanted_pairs else 1.0
        return min(seconds, pairs)

    @property
    def told(self) -> str:
        """How far it is, in words: pairs, the time that is left as pairs come now, and why it goes on.

        It ends at five times the pairs asked for at the latest, so whoever has little traffic knows how much
        more it takes.
        """
        asked, missing = self._spec.calibration_pairs, self.wanted_pairs - self.pairs
        told = f"{self.progress:.0%} done, {self.pairs} of {self.wanted_pairs} pairs"
        if self.elapsed_s < self._spec.calibration_s:
            told += f", {self.elapsed_s:.0f} of {self._spec.calibration_s:g} s"
        if missing > 0 and self.pairs > 1 and self.elapsed_s:
            left_s = missing * self.elapsed_s / (self.pairs - 1)
            told += f", about {_length(left_s)} more as they come now"
        if self._next_look:
            alike = not any(score for _, _, score in self._scores[DIVERGENCE])
            why = "its answers are all alike so far" if alike else "its pairs depend on each other for long"
            told += f"; it goes on, to {_LONGEST * asked} pairs at most, for {why}"
        return told

    def enough(self) -> bool:
        """The seconds and pairs asked for are there, and enough of them to see how they depend.

        That is looked at again once twice as many are there: with a look at every pair it would end where tau
        happens to look short.
        """
        if self.pairs < 2 or self.progress < 1.0:
            return False
        asked = self._spec.calibration_pairs
        if self.pairs >= pairs_to_see(max(self._tau(), self._tau_of_divergence()), asked):
            return True
        self._next_look = next_look(self.pairs, asked)
        return False

    def _tau(self) -> float:
        return max(map(autocorrelation_time, self._known()), default=1.0)

    def _tau_of_divergence(self) -> float:
        """Answers that differ may come in runs where latencies do not: their floor takes as long to see.

        Windows are no longer for it (`analysis.score_intervals`): every latency's verdict would pay.
        """
        rows = self._scores[DIVERGENCE]
        return tau_of_scores(_by_time(rows)) if rows else 1.0

    def _longest_tau(self) -> float:
        known = self._known() or [np.empty(0)]
        return max(map(longest_autocorrelation_time, known))

    def _known(self) -> list[NDArray[np.float64]]:
        """The contrasts of each latency that there are any of: one that answers do not have is not short."""
        return [_by_time(rows) for rows in self._latencies.values() if rows]

    def finish(self) -> Calibration:
        """What the phase fixes, from what was seen so far."""
        tau = self._tau()
        gap_s = self.elapsed_s / (self.pairs - 1) if self.pairs > 1 else 0.0
        window_s = max(self._spec.window_s, pairs_per_window(self._longest_tau()) * gap_s)
        window_ns = ceil(window_s * 1e9)
        durations = sorted(self._durations_ns)
        settle_ns = durations[ceil(0.99 * len(durations)) - 1] if durations else 0
        half = self._spec.alpha / 2  # the other half is spent on the candidates' own outputs
        return Calibration(
            window_ns=window_ns,
            settle_ns=max(settle_ns, window_ns),
            tau_pairs=tau,
            pairs=self.pairs,
            aa={
                name: against_itself(_by_time(rows))
                for name, rows in self._latencies.items()
                if len(rows) > 1
            },
            floor={name: floor_of(_counted(rows, name), half) for name, rows in self._scores.items() if rows}
            | floor_of_hazard(self._parted, half),
            by=self._by,
            slow_ms={
                name: slow
                for name, values in self._control_ms.items()
                if len(values) >= _FEWEST_FOR_SLOW and isfinite(slow := _slow(values))
            },
        )


def _length(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"


def _slow(values: list[float]) -> float:
    """What one in twenty took longer than; infinite where more than that failed, which took forever."""
    with np.errstate(invalid="ignore"):  # between a number and infinity: no number, and not finite either
        return float(np.quantile(values, SLOW))


def against_itself(values: NDArray[np.float64]) -> Spread:
    """The control's contrasts with itself, by time: their mean, and how far from 0 it may be by chance.

    By tau; and where neighbours depend on each other also by how far the means of four spans are apart
    (Student's), the wider of both.
    """
    found = _spread_of(values, _AA_ALPHA, 0.0)
    size = len(values) // _SPANS
    if size == 0 or autocorrelation_time(values) < _DEPENDS:
        return found
    means = values[-_SPANS * size :].reshape(_SPANS, size).mean(axis=1)
    return Spread(found.mean, max(found.radius, _STUDENT_3 * float(means.std(ddof=1)) / sqrt(_SPANS)))


def _counted(rows: list[tuple[int, str, float]], name: str) -> list[tuple[int, str, float]]:
    """The scores of a metric as far as they count in windows, too."""
    if (metric := every_metric().get(name)) is None:
        return rows
    most = MOST[metric.unit]
    return [(at_ns, id, min(most, max(-most, score))) for at_ns, id, score in rows]


def floor_of(rows: list[tuple[int, str, float]], alpha: float) -> Spread:
    """What the control's outputs score against its own: rows of instant, id and score."""
    return _spread_of(_by_time(rows), alpha, 1.0)


def floor_of_hazard(rows: list[tuple[int, str, float, float]], alpha: float) -> dict[str, Spread]:
    """How likely a token of the control is the first to differ from its own, by name; nothing without rows.

    Rows of instant, id, whether answers parted, and the tokens that could have been the first to.
    """
    if not rows:
        return {}
    diverged, tokens = np.array([row[2:] for row in sorted(rows)]).T
    h, residuals, per_token = linearised(diverged, tokens)
    return {HAZARD: Spread(h, _spread_of(residuals, alpha, per_token**2).radius)}


def _by_time(rows: list[tuple[int, str, float]]) -> NDArray[np.float64]:
    return np.array(ranked(value for _, _, value in sorted(rows)))


def _spread_of(values: NDArray[np.float64], alpha: float, prior: float) -> Spread:
    """Mean and radius, the pairs counted as the fewer independent ones that they are worth.

    They are few at times: the last factor makes it Student's correction in full.
    """
    n = len(values)
    mean = float(values.mean())
    sd = sqrt((float(((values - mean) ** 2).sum()) + prior) / max(1, n - 1))
    worth = max(2, int(n / longest_autocorrelation_time(values)))
    radius = asymptotic_radius(sd, worth, alpha, optimal_units=worth)
    return Spread(mean, radius * worth / (worth - 1))
