"""May a candidate win at all?  The gates before any speed: checks, errors, answers, golden requests, SLO."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from analysis.amiss import AMISS_MARGIN, amiss, not_shown
from analysis.modes import undecided, until_judged
from analysis.stats.sequence import FEWEST_UNITS

State = Literal["passed", "failed", "open"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate of one candidate; "open": nothing can be said yet.

    `accepted`: it passes because the user takes that on, not because it was shown.
    """

    name: str
    state: State
    detail: str
    accepted: bool = False

    def show(self) -> dict[str, Any]:
        """JSON-able."""
        return {"name": self.name, "state": self.state, "detail": self.detail, "accepted": self.accepted}


@dataclass(frozen=True, slots=True)
class Bars:
    """How much worse than the control a candidate may be: shares of answers.

    `outputs` False: that it answers otherwise is accepted, by whoever has looked at the answers; that they
    are worse is not, and that nothing shows them to be no worse is said.
    """

    errors: float = 0.01
    slo: float = 0.01
    outputs: bool = True


def too_early(ranking: Json) -> str | None:
    """What an experiment lacks before anybody may be turned down for good; None where it has it."""
    if ranking["phase"] == "calibration":
        done: Json = ranking["calibration"]
        return (
            f"too early: the calibration is {done['progress']:.0%} done ({done['pairs']} of"
            f" {done['wanted_pairs']} pairs, {ranking['elapsed_s']:.0f} of {done['wanted_s']:g} s);"
            f" {until_judged(ranking['mode'], ranking['replay'], 'calibration_pairs')}"
        )
    if (phase := ranking["phase"]) != "live":
        far: Json = ranking[phase]
        ends = until_judged(ranking["mode"], ranking["replay"], f"{phase}_pairs")
        return f"too early: tokens are {phase} first ({far['pairs']} of {far['wanted_pairs']} pairs); {ends}"
    if ranking["windows"] < FEWEST_UNITS:
        lacking = undecided(ranking["mode"], ranking["windows"], 0.0, ranking["replay"])
        return f"too early: {lacking}"
    return None


def gates(candidate: Json, objectives: Sequence[str], bars: Bars, early: str | None = None) -> list[Gate]:
    """All gates of one candidate of a ranking, in order.

    `objectives` are the latencies it is judged by; `early`: what the experiment lacks (`too_early`).
    """
    rates: Json = candidate.get("rates") or {}
    quality: Json = candidate.get("quality") or {}
    golden = _golden(quality) if quality.get("awaited") else None
    found = [
        _fair(candidate, objectives, early),
        _at_most("errors", rates.get("errors"), bars.errors),
        _outputs(candidate["outputs"], bars),
        _quality(candidate["outputs"], bars, golden),
    ]
    if golden is not None:
        found.append(golden)
    if "slo" in rates:
        found.append(_at_most("slo", rates["slo"], bars.slo))
    return found


def _quality(outputs: Json, bars: Bars, golden: Gate | None) -> Gate:
    """Fails where a measure that knows good from bad is surely worse.

    Passes where answers are shown to be no worse: they are the control's own, golden requests say so, or
    every such measure does.  Else it is open, or passes as what the user accepts.
    """
    if worse := amiss(outputs):
        told = "; ".join(f"{name}: {low:.1%} … {high:.1%}" for name, (low, high) in worse.items())
        return Gate("quality", "failed", f"of its answers more are amiss than of the control's ({told})")
    if outputs.get("label") == "SAME":
        return Gate("quality", "passed", "its answers are as the control's own")
    if golden is not None and golden.state == "passed":
        return Gate("quality", "passed", "golden requests show its answers to be no worse")
    unknown = not_shown(outputs)
    if not unknown:
        return Gate(
            "quality", "passed", f"by every measure of its answers surely not {AMISS_MARGIN:.0%} worse"
        )
    told = ", ".join(f"{name} {'?' if most is None else f'{most:.1%}'}" for name, most in unknown.items())
    detail = f"not shown: of its answers more than {AMISS_MARGIN:.0%} may be worse (at most: {told})"
    if bars.outputs:
        return Gate("quality", "open", detail)
    return Gate("quality", "passed", f"{detail}; accepted", accepted=True)


def _golden(quality: Json) -> Gate:
    """Golden requests: passes what is shown to be no worse by more than the margin; until then it is open.

    Where no arm gets one right they are too hard for these engines, or answers too short: nothing was tried.
    Where none is marked yet, or no check can tell, nothing was shown.
    """
    unmarked = f"; of {quality['unmarked']} more there is no word" if quality["unmarked"] else ""
    if not quality["requests"]:
        return Gate("golden", "open", f"no golden request is marked yet{unmarked.replace(' more', '')}")
    detail = (
        f"of {quality['requests']} golden requests it got {quality['candidate_passed']:.0%} right,"
        f" the control {quality['control_passed']:.0%}{unmarked}"
    )
    if quality["label"] == "WORSE":
        return Gate("golden", "failed", f"{detail} (e-value {quality['e_value']:.3g})")
    if quality["neither"] == quality["requests"]:
        return Gate("golden", "open", f"{detail}: requests that nobody gets right show nothing")
    bar = f"{quality['margin'] * 100:g} points worse"
    if not quality["not_worse"]:
        return Gate("golden", "open", f"{detail}: to show that it is not {bar} takes more of them")
    return Gate("golden", "passed", f"{detail}: surely not {bar}")


def _fair(candidate: Json, objectives: Sequence[str], early: str | None) -> Gate:
    withheld = {candidate["verdicts"][name]["withheld"] for name in objectives} - {None}
    if early is not None:
        return Gate("comparison", "open", "; ".join([early, *sorted(withheld)]))
    if withheld:
        return Gate("comparison", "failed", "; ".join(sorted(withheld)))
    return Gate("comparison", "passed", "nothing withholds its verdicts")


def _at_most(name: str, rate: Json | None, bar: float) -> Gate:
    """Non-inferiority: no more than `bar` above the control's share, by the whole interval."""
    what = {"errors": "answers failed", "slo": "answers missed the SLO"}[name]
    if rate is None or rate["lower"] is None or rate["units"] < FEWEST_UNITS:
        return Gate(name, "open", f"{0 if rate is None else rate['units']} windows, {FEWEST_UNITS} needed")
    low, high = rate["lower"], rate["upper"]
    detail = (
        f"{rate['candidate']:.2%} of {what}, the control's {rate['control']:.2%}:"
        f" {low:+.2%} … {high:+.2%}, at most {bar:+.1%} allowed"
    )
    return Gate(name, "passed" if high <= bar else "failed" if low > bar else "open", detail)


def _outputs(outputs: Json, bars: Bars) -> Gate:
    label = outputs.get("label", "UNDECIDED")
    if label == "SAME":
        return Gate("outputs", "passed", "it answers as the control answers itself")
    if label == "DIVERGES":
        detail = "it answers otherwise than the control does, beyond what the control differs from itself"
        if not bars.outputs:
            return Gate("outputs", "passed", f"{detail}; accepted", accepted=True)
        return Gate("outputs", "failed", f"{detail}; if you have judged its answers: --accept-outputs")
    if not bars.outputs:
        return Gate(
            "outputs", "passed", "whether they are the control's is not decided; accepted", accepted=True
        )
    lacking = outputs.get("lacking") or "nothing was compared yet"
    return Gate("outputs", "open", f"{lacking}; if you have judged its answers: --accept-outputs")
