"""What does `--fail-if 'ttft_p99>+5%'` mean?  The grammar of conditions, and nothing of their figures."""

import re
from dataclasses import dataclass
from math import inf, log1p
from typing import Literal, get_args

from analysis.measure import LATENCIES, Latency
from analysis.metrics._choose import every_metric
from analysis.metrics._metric import Unit
from analysis.score_intervals import reach
from analysis.similarity import NAME as SIMILARITY

Kind = Literal["latency", "errors", "slo", "output"]
Scale = Literal["change", "ms", "share", "points", "score"]

_SHAPE = re.compile(
    r"^(?:(?P<candidate>[^\s:<>=]+)\s*:)?\s*(?P<measure>[a-z][a-z0-9_]*?)(?:_p(?P<percentile>\d+(?:\.\d+)?))?\s*"
    r"(?P<side><=?|>=?)\s*(?P<sign>[+-]?)(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|ms|)$"
)
_EXAMPLES = "'ttft_p99>+5%', 'tpot>+3%', 'ttft_p95>250ms', 'errors>1%', 'slo_met<99%' or 'exact_match<0.9'"


class ConditionError(ValueError):
    """A condition cannot be read; the one-line text says why and what would do."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One `--fail-if`: it is met where `measure` lies on `side` of `bound`.

    `share` is the percentile as a share, None for the mean (of a latency: the geometric mean).  `bound` on
    each scale: change, a log ratio to the control; ms; share, of answers; points, by how much the share may
    exceed the control's; score, of an output metric.
    """

    text: str
    candidate: str | None
    kind: Kind
    measure: str
    share: float | None
    side: Literal["<", ">"]
    scale: Scale
    bound: float

    @property
    def latency(self) -> Latency | None:
        """The latency it is about, if it is about one."""
        return next((latency for latency in LATENCIES if latency == self.measure), None)

    @property
    def tail(self) -> Latency | None:
        """The latency of which single values are needed, not only window means."""
        return self.latency if self.share is not None or self.scale == "ms" else None


def parse(text: str) -> Condition:
    """Raises ConditionError."""
    found = _SHAPE.match(text.strip())
    if found is None:
        raise ConditionError(
            f"cannot read --fail-if {text!r}: write a measure, < or >, and a bound: {_EXAMPLES}"
        )
    measure, percentile = found["measure"], found["percentile"]
    kind = _kind(text, measure)
    if percentile is not None and kind != "latency":
        raise ConditionError(f"--fail-if {text!r}: only {', '.join(LATENCIES)} have percentiles")
    if percentile is not None and not 0 < float(percentile) < 100:
        raise ConditionError(f"--fail-if {text!r}: a percentile lies between p0 and p100, as p95 does")
    scale, bound = _bound(text, kind, found["sign"], float(found["number"]), found["unit"])
    side: Literal["<", ">"] = "<" if found["side"].startswith("<") else ">"
    _must_be_possible(text, measure, scale, side, bound)
    return Condition(
        text=text.strip(),
        candidate=found["candidate"],
        kind=kind,
        measure=measure,
        share=_share(percentile, scale),
        side=side,
        scale=scale,
        bound=bound,
    )


def _share(percentile: str | None, scale: Scale) -> float | None:
    if percentile is not None:
        return float(percentile) / 100.0
    return 0.5 if scale == "ms" else None  # a latency in ms without a percentile is the median


def _kind(text: str, measure: str) -> Kind:
    if measure in get_args(Latency):
        return "latency"
    if measure == "errors":
        return "errors"
    if measure == "slo_met":
        return "slo"
    if measure in every_metric() or measure == SIMILARITY:
        return "output"
    known = ", ".join((*LATENCIES, "errors", "slo_met", *every_metric(), SIMILARITY))
    raise ConditionError(f"--fail-if {text!r}: there is no measure {measure!r}; there are {known}")


def _must_be_possible(text: str, measure: str, scale: Scale, side: Literal["<", ">"], bound: float) -> None:
    """Beyond a bound there must be values, and on this side of it, too: a gate that is never shut, or always,
    is a mistake that nobody would see."""
    least, most, what = _reach(measure, scale)
    if least <= bound <= most and bound != (least if side == "<" else most):
        return
    is_never = bound >= most if side == ">" else bound <= least
    when = "is never met" if is_never else "is always met"
    raise ConditionError(f"--fail-if {text!r}: {what}, so it {when}; write a bound within, as in {_EXAMPLES}")


def _reach(measure: str, scale: Scale) -> tuple[float, float, str]:
    """From where to where values lie, in the scale's own unit and in words."""
    if scale == "score":
        unit: Unit = "share" if measure == SIMILARITY else every_metric()[measure].unit
        least, most = reach(unit)
        return least, most, f"the mean of {measure} lies from {least:g} to {most:g}"
    if scale == "share":
        return 0.0, 1.0, "a share of answers lies from 0% to 100%"
    if scale == "points":
        return -1.0, 1.0, "a share is at most 100% above or below another"
    if scale == "ms":
        return 0.0, inf, "a latency lies above 0ms"
    return -inf, inf, "no latency changes by so much"


def _bound(text: str, kind: Kind, sign: str, number: float, unit: str) -> tuple[Scale, float]:
    signed = -number if sign == "-" else number
    if kind == "latency":
        if unit == "%" and sign:
            if signed <= -100.0:
                raise ConditionError(f"--fail-if {text!r}: no latency falls by 100 % or more")
            return "change", log1p(signed / 100.0)
        if unit == "ms" and not sign:
            return "ms", number
        raise ConditionError(
            f"--fail-if {text!r}: a latency is bounded by its change against the control, with a sign and"
            " %, as in 'ttft_p99>+5%', or in ms, as in 'ttft_p99>250ms'"
        )
    if kind == "output":
        if unit:
            raise ConditionError(f"--fail-if {text!r}: a score has no unit; bound it as in 'exact_match<0.9'")
        return "score", signed
    if unit != "%":
        raise ConditionError(
            f"--fail-if {text!r}: a share of answers is bounded in %, as in 'errors>1%', or in points above"
            " the control's, with a sign, as in 'errors>+1%'"
        )
    return ("points" if sign else "share"), signed / 100.0
