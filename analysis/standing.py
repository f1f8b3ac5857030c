"""How is a candidate's standing shown?  Verdicts, outputs, order and summary as JSON-able values."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.amiss import amiss
from analysis.mending import mend
from analysis.modes import undecided, until_judged
from analysis.rates import MORE_ERRORS
from analysis.stats.contrast import PENALTY
from analysis.stats.sequence import FEWEST_UNITS, asymptotic_log_evidence, bernstein_interval
from analysis.verdict import Interval, Label, interval, judge, progress, ratio
from analysis.wording import no_interval, word

DIVERGES = "outputs diverge"
AMISS = "answers are amiss more often"
WRONG = "golden requests go wrong"
_SAID = {
    MORE_ERRORS: MORE_ERRORS,
    DIVERGES: "answers otherwise",
    AMISS: "its answers are amiss more often",
    WRONG: "gets golden requests wrong that the control gets right",
}
_ORDER = {"FASTER": 0, "EQUIVALENT": 1, "UNDECIDED": 2, "SLOWER": 3}


def verdict_shown(
    means: NDArray[np.float64] | None,
    alpha: float,
    margin: float,
    decided: Label | None,
    failed: Sequence[str],
    mode: str = "live",
) -> dict[str, Any]:
    """One latency's verdict.

    A label stays as it was first decided while the interval goes on. If the interval comes to say otherwise,
    the effect is not steady and the verdict is withheld, as it is when a check failed. `promotable`: FASTER
    holds without any assumption on the distribution, too. `evidence` against no difference: log10 of an
    e-value, by which any number of candidates may be compared (`analysis.several`).  `word`: what is said,
    the label or that it is withheld; `why`: why there is no interval, where nothing is withheld.
    """
    found = interval(means, alpha) if means is not None else None
    now = judge(found, margin)
    withheld = "; ".join(failed) or None
    if withheld is None and decided is not None and now not in (decided, "UNDECIDED"):
        withheld = (
            f"first {decided}, by now {now}: the effect is not steady (to mend it: {mend('steady', mode)})"
        )
    label: Label = "UNDECIDED" if withheld is not None or decided is None else decided
    # The sequence without assumptions needs bounded values: window means are cut where a failure counts.
    promotable = (
        label == "FASTER" and means is not None and bernstein_interval(means, PENALTY, alpha)[1] < 0.0
    )
    return {
        "label": label,
        "word": word(label, withheld),
        "why": None if withheld else no_interval(None if means is None else len(means), mode),
        "ratio": None if found is None else ratio(found.mean),
        "lower": None if found is None else ratio(found.lower),
        "upper": None if found is None else ratio(found.upper),
        "units": 0 if means is None else len(means),
        "progress": 1.0 if decided is not None else progress(found, margin),
        "spread": None if found is None else found.sd,
        "evidence": None if found is None or found.units < FEWEST_UNITS else _log10_evidence(found, alpha),
        "promotable": promotable,
        "withheld": withheld,
    }


def _log10_evidence(found: Interval, alpha: float) -> float:
    """At most 300, so that it stays a number."""
    return min(300.0, asymptotic_log_evidence(found.mean, found.sd, found.units, alpha) / log(10.0))


def candidate_order(candidate: Mapping[str, Any]) -> tuple[int, float, str]:
    """Errors first, then by verdict, then by the estimate of what ranks, then by name."""
    main = main_verdict(candidate)
    estimate = main["ratio"]
    if estimate is None and main["withheld"] is not None:
        return 2 * len(_ORDER), float("inf"), candidate["name"]  # it mostly fails: behind all that answer
    gate = len(_ORDER) if MORE_ERRORS in candidate["flags"] else 0
    return gate + _ORDER[main["label"]], float("inf") if estimate is None else estimate, candidate["name"]


def main_verdict(candidate: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict that ranks: TPOT, or E2E where nothing is streamed."""
    verdicts = candidate["verdicts"]
    found: Mapping[str, Any] = verdicts["tpot"] if verdicts["tpot"]["units"] else verdicts["e2e"]
    return found


def summary(
    phase: str,
    calibrated: str,
    ranked: Sequence[Mapping[str, Any]],
    mode: str = "live",
    replay: Mapping[str, Any] | None = None,
) -> str:
    """One or two sentences on where the experiment stands; `calibrated`, `replay`: how much is done."""
    if phase == "calibration":
        ends = until_judged(mode, replay, "calibration_pairs")
        return f"Calibrating: control against itself, {calibrated}. No verdict before it is over; {ends}."
    if phase in ("forced", "scored"):
        ends = until_judged(mode, replay, f"{phase}_pairs")
        return f"No verdict before the phase is over in which tokens are {phase}; {ends}."
    if not ranked:
        return "No candidates."
    return " ".join(_sentence(candidate, mode, replay) for candidate in ranked)


def _sentence(candidate: Mapping[str, Any], mode: str, replay: Mapping[str, Any] | None) -> str:
    main, name = main_verdict(candidate), candidate["name"]
    measure = "per token" if candidate["verdicts"]["tpot"]["units"] else "end to end"
    doubt = "".join(f", but {_SAID[flag]}" for flag in candidate["flags"])
    if candidate["left"] is not None:
        return f"{name}: {candidate['left']}."
    if main["withheld"] is not None:
        return f"{name}: verdict withheld ({main['withheld']})."
    if main["label"] == "UNDECIDED":
        why = undecided(mode, main["units"], main["progress"], replay)
        return f"{name}: undecided {measure}, {why}{doubt}."
    low, high = sorted((abs(main["lower"] - 1.0), abs(main["upper"] - 1.0)))
    if main["label"] == "EQUIVALENT":
        return f"{name} is as fast as the control {measure} (within {high:.1%}){doubt}."
    word = "faster" if main["label"] == "FASTER" else "slower"
    return f"{name} is {abs(main['ratio'] - 1.0):.1%} {word} {measure} ({low:.1%} to {high:.1%}){doubt}."


def flags(candidate: Mapping[str, Any]) -> list[str]:
    """What must be said of a candidate beside its speed."""
    found = [MORE_ERRORS] if candidate["rates"].get("errors", {}).get("label") == "MORE" else []
    found += [DIVERGES] if candidate["outputs"]["label"] == "DIVERGES" else []
    found += [AMISS] if amiss(candidate["outputs"]) else []
    return found + ([WRONG] if candidate["quality"]["label"] == "WORSE" else [])
