"""Is the comparison fair?  What must hold for a verdict to be shown, each with its reason."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from analysis.calibration import Calibration
from analysis.columns import Columns, Floats
from analysis.measure import LATENCIES
from analysis.mending import mend
from analysis.modes import units_of
from analysis.stats.quantile import Latest
from analysis.stats.sequence import FEWEST_UNITS

_NEVER = np.iinfo(np.int64).max
_LOAD_MARGIN = 0.05
_LAG_MS = 50.0
_CACHED_DRIFT_MARGIN = 0.10
_SPAN_PAIRS = 50
_CONTROL_ERRORS = 0.10
_MOSTLY_ERRORS = 0.50  # beyond it a ratio would be the penalties', not the answers'
_CANDIDATE_ERRORS = 0.01
_WARM_PAIRS = 50
FEWEST = 20  # pairs below which shares say nothing
_ORDER_SIGMAS = 4.0
_INSTANTS = {"replay": "their instants in the recording"}
_MOST_OPEN = 256  # pairs that may be under way when the books are written


@dataclass(frozen=True, slots=True)
class Check:
    """One condition; `ok` is None while it cannot be said. When it fails the `withholds` are withheld.

    `remedy`: what would mend it, where that hangs on what was found; None: the one that its name has.
    """

    name: str
    ok: bool | None
    detail: str
    withholds: tuple[str, ...] = ()
    remedy: str | None = None

    def show(self, mode: str) -> dict[str, Any]:
        """JSON-able.  `withholds`: the latencies of which nothing is said while it fails; `mend`: what would
        make it hold in an experiment of this mode, None where it does."""
        said = {"name": self.name, "ok": self.ok, "detail": self.detail}
        remedy = None if self.ok else self.remedy or mend(self.name, mode)
        return {**said, "mend": remedy, "withholds": list(self.withholds)}

    def reason(self, mode: str) -> str:
        """Why a verdict is withheld: what was found, which check that is, and what would mend it."""
        return f"{self.detail} ({self.name}; to mend it: {self.remedy or mend(self.name, mode)})"


EVERY = LATENCIES
_PREFILL = ("ttft", "visible", "e2e")  # what a prompt that is found in the cache shortens


class _Cached:
    """Prompt tokens and those of them from the cache, control's and the candidate's, by spans of pairs."""

    def __init__(self) -> None:
        self.pairs = 0
        self._rows = array("d")  # of each span: cached and all, the control's and then the candidate's

    def add(self, tokens: Floats) -> None:
        """Four rows of tokens, a column for each pair."""
        spans = (self.pairs + np.arange(tokens.shape[1])) // _SPAN_PAIRS
        self.pairs += tokens.shape[1]
        self._rows.extend([0.0] * (4 * (-(-self.pairs // _SPAN_PAIRS)) - len(self._rows)))
        np.add.at(np.frombuffer(self._rows).reshape(-1, 4), spans, tokens.T)

    @property
    def spans(self) -> Floats:
        """A row for each span."""
        return np.array(self._rows).reshape(-1, 4)

    @staticmethod
    def shares(spans: Floats) -> tuple[float, float]:
        """From the cache, of all: the control's and the candidate's."""
        cached, of, other_cached, other_of = spans.sum(axis=0).tolist()
        return cached / of, other_cached / other_of


class Fairness:
    """What the live pairs say about the fairness of one candidate's comparison."""

    def __init__(self, candidate: str) -> None:
        self.candidate = candidate
        self._pairs = 0
        self._arrivals = [0, 0]
        self._offered = [0, 0]
        self._failed_alone = [0, 0]
        self._turns = False  # arms take turns: the control is first by design
        self._first = 0
        self._ordered = 0
        self._cached = _Cached()

    def add(self, columns: Columns) -> None:
        """Takes live pairs."""
        ours, theirs = columns.side("control"), columns.side(self.candidate)
        meant = ~columns.in_turn | theirs.present  # else it was another candidate's turn
        both = ours.present & theirs.present
        self._pairs += int(meant.sum())
        for at, (side, other) in enumerate(((ours, theirs), (theirs, ours))):
            self._arrivals[at] += int((meant & side.present).sum())
            self._failed_alone[at] += int((side.failed & other.ok).sum())
        self._turns = self._turns or bool((both & columns.in_turn).any())
        first, second = ours.number("order")[both], theirs.number("order")[both]
        self._ordered += int((first != second).sum())
        self._first += int((first < second).sum())
        prompts = [side.number("prompt_tokens") for side in (ours, theirs)]
        told = (prompts[0] > 0.0) & (prompts[1] > 0.0)
        for at, tokens in enumerate(prompts):
            self._offered[at] += int(tokens[told].sum())
        cached = [side.number("cached_tokens") for side in (ours, theirs)]
        told &= ~np.isnan(cached[0]) & ~np.isnan(cached[1])
        self._cached.add(np.stack((cached[0], prompts[0], cached[1], prompts[1]))[:, told])

    def load(self) -> Check:
        """Arrivals and offered tokens per arm within 5 %."""
        if self._pairs < FEWEST:
            return Check("load_balance", None, "too few pairs yet", EVERY)
        arrivals, offered = _excess(self._arrivals), _excess(self._offered)
        ok = abs(arrivals) <= _LOAD_MARGIN and abs(offered) <= _LOAD_MARGIN
        detail = (
            f"{self.candidate}: {arrivals:+.1%} arrivals, {offered:+.1%} prompt tokens against the control"
        )
        return Check("load_balance", ok, detail, EVERY)

    def order(self) -> Check:
        """Control first in about half of the pairs."""
        if self._ordered < FEWEST:
            return Check("dispatch_order", None, "too few pairs yet", EVERY)
        if self._turns:
            detail = f"{self.candidate}: arms take turns, the control first; calibration had it second, too"
            return Check("dispatch_order", True, detail, EVERY)
        share = self._first / self._ordered
        ok = abs(share - 0.5) <= _ORDER_SIGMAS * 0.5 / sqrt(self._ordered)
        return Check(
            "dispatch_order", ok, f"{self.candidate}: the control was first in {share:.0%} of pairs", EVERY
        )

    def cache(self) -> Check:
        """The caches stand to one another as they did before; a share that drifts is a cache still filling.

        Both arms get the same copies at the same moments, so a lasting difference is the configuration's own
        (a smaller cache, none, another block size) and part of what is compared: it is told, not withheld.
        """
        if self._cached.pairs < FEWEST:
            return Check("cache_parity", None, "the engines do not report cached tokens", _PREFILL)
        spans = self._cached.spans
        ours, theirs = _Cached.shares(spans)
        detail = f"{self.candidate}: {theirs:.0%} of the prompt from cache, control {ours:.0%}"
        half = len(spans) // 2
        if half == 0:
            return Check("cache_parity", None, f"{detail}; too few pairs to tell a filling cache", _PREFILL)
        (ours_0, theirs_0), (ours_1, theirs_1) = _Cached.shares(spans[:half]), _Cached.shares(spans[half:])
        drift = (theirs_1 - ours_1) - (theirs_0 - ours_0)
        if abs(drift) > _CACHED_DRIFT_MARGIN:
            return Check(
                "cache_parity", False, f"{detail}; the gap moved {drift:+.0%}: still filling", _PREFILL
            )
        return Check("cache_parity", True, detail, _PREFILL)

    def errors(self) -> Check:
        """The control answers what the candidate answers: against a control that fails, anything looks fast.

        What both fail says nothing about either (a request may be at fault); what the candidate alone fails
        counts against it in the verdict, so it only shows here, unless it fails most: then nothing was timed.
        """
        if self._pairs < FEWEST:
            return Check("errors", None, "too few pairs yet", EVERY)
        ours, theirs = (failed / self._pairs for failed in self._failed_alone)
        detail = f"{self.candidate}: failed alone {theirs:.1%}, the control alone {ours:.1%}"
        if ours > _CONTROL_ERRORS or theirs > _MOSTLY_ERRORS:
            return Check("errors", False, detail, EVERY)
        return Check("errors", theirs <= _CANDIDATE_ERRORS, detail)


def _excess(totals: list[int]) -> float:
    return totals[1] / totals[0] - 1.0 if totals[0] else 0.0


class Lag:
    """How far apart in time the arms of a pair were dispatched, and how long after production."""

    def __init__(self) -> None:
        self._lags_ms = Latest()
        self._behind_ms = Latest()

    def add(self, columns: Columns) -> None:
        """Takes live pairs."""
        pairs = len(columns)
        first, last = np.full(pairs, _NEVER), np.full(pairs, -_NEVER)
        arms = np.zeros(pairs, dtype=np.int64)
        for (arm, twin), side in columns.sides.items():
            if twin:
                continue
            sent = side.sent_ns - columns.shifts_ns(arm)
            first = np.where(side.present, np.minimum(first, sent), first)
            last = np.where(side.present, np.maximum(last, sent), last)
            arms += side.present
        several = arms > 1
        self._lags_ms.add((last - first)[several] / 1e6)
        known = columns.knows_production & (arms > 0)
        self._behind_ms.add((first - columns.production_sent_ns)[known] / 1e6)

    def show(self) -> dict[str, float | None]:
        """JSON-able, in ms: the arms of a pair from first to last, and the first behind production."""
        return {
            "spread_p99_ms": self._lags_ms.quantile(0.99),
            "behind_production_p50_ms": self._behind_ms.quantile(0.5),
            "behind_production_p99_ms": self._behind_ms.quantile(0.99),
        }

    def check(self, mode: str) -> Check:
        """The p99 below 50 ms.  How long after production, or its instant in a replay, is told: it is the
        same for all arms."""
        p99 = self._lags_ms.quantile(0.99)
        if p99 is None or len(self._lags_ms) < FEWEST:
            return Check("dispatch_lag", None, "too few pairs yet", EVERY)
        detail = f"the arms were sent to within {p99:.1f} ms (p99)"
        behind = self._behind_ms.quantile(0.99)
        if behind is not None:
            detail += f", {behind:.1f} ms after {_INSTANTS.get(mode, 'production')} (p99)"
        return Check("dispatch_lag", p99 < _LAG_MS, detail, EVERY)


def enough_units(units: int, mode: str) -> Check:
    """At least 15 windows, which are blocks where arms take turns. Fewer withhold nothing: labels wait."""
    ok = True if units >= FEWEST_UNITS else None
    return Check("enough_units", ok, f"{units} {units_of(mode)}, {FEWEST_UNITS} needed")


def calibrated(calibration: Calibration | None) -> Check:
    """The control does not differ from itself.

    Where it does per token (or, without streams, end to end) nothing is judged; else what differs is not.
    """
    if calibration is None:
        return Check("calibrated", None, "calibrating", EVERY)
    name = "tpot" if "tpot" in calibration.aa else "e2e"
    against_itself = calibration.aa.get(name)
    if against_itself is None:
        return Check("calibrated", False, "the control never answered twice", EVERY)
    differs = [each for each, spread in calibration.aa.items() if not spread.lower <= 0.0 <= spread.upper]
    shown = [name, *(each for each in differs if each != name)]
    ends = ((each, calibration.aa[each].lower, calibration.aa[each].upper) for each in shown)
    told = ", ".join(f"{each} {lower:+.3f} to {upper:+.3f}" for each, lower, upper in ends)
    detail = f"control against itself, log ratios: {told}"
    return Check("calibrated", not differs, detail, EVERY if name in differs else tuple(differs))


def warm(calibration: Calibration | None, needed: int) -> Check:
    """Every arm was used before the first pair that counts: the calibration's pairs go to all arms, and it
    came to so many as are asked for; 50 will do."""
    if calibration is None:
        return Check("warm_up", None, "calibrating", EVERY)
    wanted = min(_WARM_PAIRS, needed)
    detail = f"{calibration.pairs} pairs before the first that counts, {wanted} needed"
    return Check("warm_up", calibration.pairs >= wanted, detail, EVERY)


def books(admitted: int, paired: int, dropped: Mapping[str, int]) -> Check:
    """Every copy that was admitted was paired, was dropped for a reason, or is under way."""
    if not admitted:
        return Check("books", None, "no books yet", EVERY)
    lost = sum(dropped.values())
    open_pairs = admitted - paired - lost
    ok = 0 <= open_pairs <= max(_MOST_OPEN, admitted // 20)
    return Check(
        "books", ok, f"{admitted} admitted = {paired} paired + {lost} dropped + {open_pairs} open", EVERY
    )


def worst(checks: list[Check]) -> Check:
    """One check out of the same one for every candidate: the one that is most in the way."""
    return min(checks, key=lambda check: (check.ok is not False, check.ok is not None, not check.withholds))
