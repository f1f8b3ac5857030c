"""Is a condition met?  Shown to be, shown not to be, or not known yet: by intervals, never by estimates."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any, Literal

import numpy as np

from analysis.decision.conditions import Condition, ConditionError
from analysis.decision.evidence import Evidence
from analysis.report_lines import change
from analysis.similarity import NAME as SIMILARITY
from analysis.stats.bootstrap import HORIZON, pairs_needed, quantile_effect, quantile_level, tail_clusters
from analysis.stats.sequence import FEWEST_UNITS
from analysis.verdict import Interval

Answer = Literal["met", "not met", "unknown"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judged:
    """One condition for one candidate, with what was found in words.

    "met": the whole interval lies beyond the bound, so the gate fails.  "not met": none of it does.
    """

    condition: str
    candidate: str
    answer: Answer
    found: str
    note: str | None = None

    def show(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "condition": self.condition,
            "candidate": self.candidate,
            "answer": self.answer,
            "found": self.found,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class _Found:
    lower: float
    upper: float
    words: str
    note: str | None = None


def judged(condition: Condition, ranking: Json, evidence: Evidence, alpha: float) -> list[Judged]:
    """The condition for each candidate it is about.

    ConditionError where it names one that there is not, or a measure that this experiment does not take.
    """
    names = [candidate["name"] for candidate in ranking["candidates"]]
    if condition.candidate is not None and condition.candidate not in names:
        there = ", ".join(names)
        text = f"--fail-if {condition.text!r}: no candidate {condition.candidate!r}; there are {there}"
        raise ConditionError(text)
    if condition.measure == SIMILARITY and ranking["similarity"] is None:
        text = f"--fail-if {condition.text!r}: no embeddings are compared here; set experiments[].similarity"
        raise ConditionError(text)
    return [
        _judge(condition, candidate, evidence, alpha)
        for candidate in ranking["candidates"]
        if condition.candidate in (None, candidate["name"])
    ]


def _judge(condition: Condition, candidate: Json, evidence: Evidence, alpha: float) -> Judged:
    found = _found(condition, candidate, evidence, alpha)
    if isinstance(found, str):
        return Judged(condition.text, candidate["name"], "unknown", found)
    beyond, within = found.lower > condition.bound, found.upper <= condition.bound
    if condition.side == "<":
        beyond, within = found.upper < condition.bound, found.lower >= condition.bound
    answer: Answer = "met" if beyond else "not met" if within else "unknown"
    return Judged(condition.text, candidate["name"], answer, found.words, found.note)


def _found(condition: Condition, candidate: Json, evidence: Evidence, alpha: float) -> _Found | str:
    """The interval on the condition's scale, or why there is none."""
    name = candidate["name"]
    if condition.kind == "latency":
        withheld = candidate["verdicts"][condition.measure]["withheld"]
        if withheld:
            return f"withheld: {withheld}"
        if condition.tail is not None:
            return _tail(condition, name, evidence, alpha)
        return _mean(candidate["verdicts"][condition.measure])
    if condition.kind == "output":
        return _score(candidate["outputs"].get(condition.measure))
    rate = "errors" if condition.kind == "errors" else "slo"
    if condition.scale == "points":
        return _points(condition, (candidate.get("rates") or {}).get(rate))
    own = evidence.failures(name, alpha) if rate == "errors" else evidence.misses(name, alpha)
    return _share(condition, own)


def _mean(said: Json) -> _Found | str:
    if said["lower"] is None or said["upper"] is None or said["units"] < FEWEST_UNITS:
        return f"{said['units']} windows, {FEWEST_UNITS} needed"
    words = f"{change(said['ratio'])} ({change(said['lower'])} … {change(said['upper'])})"
    return _Found(log(said["lower"]), log(said["upper"]), words)


def _tail(condition: Condition, name: str, evidence: Evidence, alpha: float) -> _Found | str:
    assert condition.tail is not None and condition.share is not None
    pairs = evidence.paired(name, condition.tail)
    absolute = condition.scale == "ms"
    if absolute:
        effect = quantile_level(pairs.candidate, pairs.windows, condition.share, alpha)
    else:
        effect = quantile_effect(pairs.control, pairs.candidate, pairs.windows, condition.share, alpha)
    if effect is None:
        windows = len(np.unique(pairs.windows))
        clusters = tail_clusters(pairs.control, pairs.candidate, pairs.windows, condition.share)
        fewest = pairs_needed(condition.share, len(pairs.control), clusters)
        bursts = ", for answers as slow come in bursts," if clusters.number < inf else ","
        return (
            f"{len(pairs.control)} pairs in {windows} windows, {fewest} in {FEWEST_UNITS} needed{bursts}"
            " with fewer failures than reach the percentile"
        )
    if absolute:
        value, lower, upper = (exp(v) for v in (effect.effect, effect.lower, effect.upper))
        return _Found(lower, upper, f"{value:.1f} ms ({lower:.1f} … {upper:.1f})", HORIZON)
    value, lower, upper = (exp(v) for v in (effect.effect, effect.lower, effect.upper))
    words = f"{change(value)} ({change(lower)} … {change(upper)})"
    return _Found(effect.lower, effect.upper, words, HORIZON)


def _score(said: Json | None) -> _Found | str:
    if said is None or said["lower"] is None or said["upper"] is None:
        return "not measured yet" if said is None or said["why"] is None else str(said["why"])
    words = f"{said['value']:.3f} ({said['lower']:.3f} … {said['upper']:.3f})"
    return _Found(said["lower"], said["upper"], words)


_NONE = {"errors": "no pairs yet", "slo": "no SLO is set (experiments[].slo), or no stream was answered"}


def _share(condition: Condition, own: Interval | None) -> _Found | str:
    if own is None:
        return _NONE[condition.kind]
    if own.units < FEWEST_UNITS:
        return f"{own.units} windows, {FEWEST_UNITS} needed"
    value, lower, upper = own.mean, max(0.0, own.lower), min(1.0, own.upper)
    if condition.kind == "slo":  # a share met is what is not missed
        value, lower, upper = 1.0 - value, 1.0 - upper, 1.0 - lower
    return _Found(lower, upper, f"{value:.2%} ({lower:.2%} … {upper:.2%})")


def _points(condition: Condition, rate: Json | None) -> _Found | str:
    if rate is None:
        return _NONE[condition.kind]
    if rate["lower"] is None or rate["units"] < FEWEST_UNITS:
        return f"{rate['units']} windows, {FEWEST_UNITS} needed"
    value, lower, upper = rate["excess"], rate["lower"], rate["upper"]
    if condition.kind == "slo":
        value, lower, upper = -value, -upper, -lower
    words = f"{value:+.2%} ({lower:+.2%} … {upper:+.2%}) points against the control"
    return _Found(lower, upper, words)
