"""What does an arm cost under each load, and which load does it bear within the SLO?

Every figure is a mean of windows with an interval that holds at every look, or is withheld with the reason.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from analysis.cost.energy import Energy, Floats, GpuReadings
from analysis.cost.levels import Level, levels
from analysis.cost.presets import TARGET
from analysis.cost.prices import Bill, Prices, bill
from analysis.cost.slices import Runs, Slices
from analysis.cost.tally import Tally
from analysis.stats.sequence import FEWEST_UNITS
from analysis.stats.windows import FEWEST_PAIRS
from analysis.verdict import Interval, interval, share_interval

KINDS: Final = ("input", "output", "total")
# So many of the answers may leave their tokens unsaid; what is missing counts as none, against the arm.
_UNSAID = 0.01


def figure(
    value: float | None, lower: float | None = None, upper: float | None = None, withheld: str | None = None
) -> dict[str, Any]:
    """One figure as it is shown; `withheld` says why there is none."""
    return {"value": value, "lower": lower, "upper": upper, "withheld": withheld}


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that is known of what arms answered and of their GPUs.

    `window_ns` None: arms take turns.  `has_slo`: whether an SLO is set.  `join`: so many windows are
    reckoned with as one, a power of 2, for there are many.  `more`: the same of other experiments with these
    arms, under other loads.
    """

    tally: Tally
    gpus: GpuReadings
    prices: Prices | None
    window_ns: int | None
    has_slo: bool
    alpha: float
    join: int = 1
    more: tuple["Recorded", ...] = ()

    def of(self, arm: str) -> list["Recorded"]:
        """This, and the others that have the arm."""
        return [self, *(one for one in self.more if one.tally.has(arm))]

    @property
    def units(self) -> str:
        """What its slices of time are."""
        return "slots" if self.window_ns is None else "windows"

    def runs(self, arm: str) -> Runs:
        """The time in which it was judged."""
        return self.tally.runs(arm, self.window_ns).joined(self.join)

    def bill(self, arm: str) -> Bill:
        """What the arm's time costs; not said where it had other GPUs in other experiments."""
        names = [sorted(one.gpus.names(arm), key=str) for one in self.of(arm)]
        if any(others != names[0] for others in names):
            why = "its GPUs are not the same in all logs that are taken together, or not read in all of them"
            return Bill(None, why, None, why)
        return bill(arm, self.gpus.names(arm), self.prices)

    def energy(self, arm: str, slices: Slices) -> Energy:
        """The energy used in slices."""
        begins, ends = (slices.of(name).astype(np.float64) for name in ("begin_ns", "end_ns"))
        return self.gpus.energy(arm, begins, ends)


def arm_cost(recorded: Recorded, arm: str) -> dict[str, Any]:
    """All figures of one arm, JSON-able: its curve over loads, the load it bears, what it costs there."""
    owed = recorded.bill(arm)
    every = [(one, one.runs(arm)) for one in recorded.of(arm)]
    runs = every[0][1].and_those([own for _, own in every[1:]])
    energy, *others = [one.energy(arm, own.slices) for one, own in every]
    energy = energy.and_that(others)
    curve = [_at(recorded, owed, energy, level) for level in levels(runs, len(every[0][1].slices))]
    load = _most(curve, recorded.has_slo)
    at = load.pop("at")
    return {
        "gpus": {"count": owed.gpus, "names": recorded.gpus.names(arm), "withheld": owed.gpus_why},
        "per_hour": figure(owed.per_hour, withheld=owed.per_hour_why),
        "token_sources": dict(sorted(sum((one.tally.sources[arm] for one, _ in every), Counter()).items())),
        "curve": curve,
        "max_load": load,
        "at_slo": None if at is None else at,
    }


def _at(recorded: Recorded, owed: Bill, energy: Energy, level: Level) -> dict[str, Any]:
    few = None
    if len(level.slices) < FEWEST_UNITS:
        few = f"{len(level.slices)} {recorded.units} under this load, {FEWEST_UNITS} needed: send it longer"
    used = energy.used(level.rows)
    tokens = {kind: _tokens(level.slices, kind) for kind in KINDS}
    unsaid = {kind: few or _unsaid(level.slices, kind) for kind in KINDS}
    seconds = level.slices.seconds

    def of(make: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        return {kind: figure(None, withheld=unsaid[kind]) if unsaid[kind] else make(kind) for kind in KINDS}

    def per_gpu_s(kind: str) -> dict[str, Any]:
        if owed.gpus is None:
            return figure(None, withheld=owed.gpus_why)
        return _mean(interval(tokens[kind] / (seconds * owed.gpus), recorded.alpha))

    def per_million(kind: str) -> dict[str, Any]:
        if owed.per_hour is None:
            return figure(None, withheld=owed.per_hour_why)
        return _inverse(interval(tokens[kind] / seconds, recorded.alpha), owed.per_hour / 3600.0 * 1e6)

    def joules(kind: str) -> dict[str, Any]:
        known = ~np.isnan(used.joules)
        if used.source is None or int(known.sum()) < FEWEST_UNITS:
            few_known = f"energy is known in {int(known.sum())} {recorded.units}, {FEWEST_UNITS} needed"
            return figure(None, withheld=used.why if used.source is None else few_known)
        return _ratio(used.joules[known], tokens[kind][known], recorded.alpha)

    return {
        "multiplier": level.multiplier,
        "requests_per_s": level.requests_per_s,
        "seconds": level.seconds,
        "windows": len(level.slices),
        "slo": _slo(recorded, level.slices),
        "tokens_per_gpu_s": of(per_gpu_s),
        "per_million": of(per_million),
        "joules_per_token": of(joules),
        "energy": {"source": used.source, "valid": used.is_valid, "why": used.why},
    }


def _tokens(slices: Slices, kind: str) -> Floats:
    kinds = KINDS[:2] if kind == "total" else (kind,)
    found: Floats = np.sum([slices.of(f"{one}_tokens") for one in kinds], axis=0).astype(np.float64)
    return found


def _unsaid(slices: Slices, kind: str) -> str | None:
    """Why tokens of this kind cannot be counted, None where they can."""
    answered = int(slices.of("answered").sum())
    if not answered:
        return "no request was answered under this load"
    inputs, outputs = (int(slices.of(name).sum()) for name in ("no_input", "no_output"))
    missing = max(inputs if kind != "output" else 0, outputs if kind != "input" else 0) / answered
    if missing <= _UNSAID:
        return None
    return (
        f"{missing:.0%} of its answers do not say their tokens: have streams report usage"
        " (stream_options.include_usage)"
    )


def _slo(recorded: Recorded, slices: Slices) -> dict[str, Any]:
    """The share of answers that kept the SLO, and whether that is the target, with certainty."""
    if not recorded.has_slo:
        return {**figure(None, withheld=_NO_SLO), "state": None}
    counts = list(_units(slices))
    found = share_interval(counts, recorded.alpha)
    if found is None or found.units < FEWEST_UNITS:
        few = f"{len(counts)} times {FEWEST_PAIRS} streams under this load, {FEWEST_UNITS} needed"
        return {**figure(None, withheld=f"{few}: send it longer"), "state": "unknown"}
    lower, upper = 1.0 - found.upper, min(1.0, 1.0 - found.lower)
    state = "meets" if lower >= TARGET else "misses" if upper < TARGET else "unknown"
    return {**figure(1.0 - found.mean, max(0.0, lower), upper), "state": state}


def _units(slices: Slices) -> Iterator[tuple[int, int]]:
    """Answers that missed the SLO, of how many: slices are joined until they hold enough of them."""
    missed = judged = 0
    for more, of in zip(slices.of("missed").tolist(), slices.of("judged").tolist(), strict=True):
        missed, judged = missed + more, judged + of
        if judged >= FEWEST_PAIRS:
            yield missed, judged
            missed = judged = 0


_NO_SLO: Final = "no SLO is set: set experiments[].slo, or give --slo"


def _most(curve: Sequence[dict[str, Any]], has_slo: bool) -> dict[str, Any]:
    """The heaviest load shown to meet the SLO, lighter than any shown to miss it; both in requests/s."""
    none = {"at_least": None, "below": None, "at": None, "bound": None}
    if not has_slo:
        return {**none, "withheld": _NO_SLO}
    misses = [n for n, level in enumerate(curve) if level["slo"]["state"] == "misses"]
    bearable = range(misses[0]) if misses else range(len(curve))
    meets = [n for n in bearable if curve[n]["slo"]["state"] == "meets"]
    below = curve[misses[0]]["requests_per_s"] if misses else None
    if not meets:
        if misses and misses[0] == 0:
            why = f"it misses the SLO even under the lightest load, {below:.3g} requests/s: send it less"
        else:
            why = f"of no load is it certain yet that {TARGET:.0%} of answers meet the SLO: send it longer"
        return {**none, "below": below, "withheld": why}
    at = meets[-1]
    # Only where the next load is shown to be too much is this the most that the arm bears.
    is_most = bool(misses) and at == misses[0] - 1
    return {
        "at_least": curve[at]["requests_per_s"],
        "below": below,
        "at": at,
        "bound": "about" if is_most else "at most",
        "withheld": None,
    }


def _mean(found: Interval | None) -> dict[str, Any]:
    if found is None:
        return figure(None, withheld="no windows")
    return figure(found.mean, max(0.0, found.lower), found.upper)


def _inverse(found: Interval | None, scale: float) -> dict[str, Any]:
    """`scale` over a mean and over its interval; no upper end where the mean may be 0."""
    if found is None or found.mean <= 0.0:
        return figure(None, withheld="it answered with no such token under this load")
    upper = scale / found.lower if found.lower > 0.0 else None
    return figure(scale / found.mean, scale / found.upper, upper)


def _ratio(numerators: Floats, denominators: Floats, alpha: float) -> dict[str, Any]:
    """Sum over sum; its interval by linearisation: of the windows' (n - ratio x d), over the mean d."""
    total = float(denominators.sum())
    if total <= 0.0:
        return figure(None, withheld="it answered with no such token under this load")
    ratio = float(numerators.sum()) / total
    found = interval(numerators - ratio * denominators, alpha)
    radius = found.radius / (total / len(denominators)) if found is not None else float("inf")
    return figure(ratio, max(0.0, ratio - radius), ratio + radius)
