"""What a run is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, nan

from bench.routing.setting import Setting
from bench.routing.world import Outcome, Run


@dataclass(frozen=True, slots=True)
class Measures:
    """Of the requests that came after the warm-up and until no more were sent.

    hit: share of prompt tokens that were cached.  goodput: share of requests answered within both
    objectives; a refused one is not.  imbalance: the busiest engine's requests in flight, over the mean's.
    """

    hit: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    goodput: float
    refused: float
    imbalance: float
    decision_us: float
    requests_per_s: float


def measure(run: Run) -> Measures:
    setting, until_s = run.setting, run.until_s
    measured = [one for one in run.outcomes if setting.warm * until_s <= one.arrived_s <= until_s]
    answered = [one for one in measured if one.first_s >= 0]
    waits = sorted(one.first_s - one.arrived_s for one in answered)
    asked_tokens = sum(one.prompt_tokens for one in answered)
    busy_s = [0.0] * setting.engines
    for one in answered:
        busy_s[one.engine] += one.ended_s - one.arrived_s
    mean_s = sum(busy_s) / len(busy_s)
    decisions = sorted(run.decision_ns)
    number = len(measured)
    return Measures(
        hit=sum(one.cached_tokens for one in answered) / asked_tokens if asked_tokens else nan,
        ttft_p50_s=quantile(waits, 0.5),
        ttft_p90_s=quantile(waits, 0.9),
        ttft_p99_s=quantile(waits, 0.99),
        goodput=sum(is_good(one, setting) for one in answered) / number if number else nan,
        refused=1 - len(answered) / number if number else nan,
        imbalance=max(busy_s) / mean_s if mean_s else nan,
        decision_us=quantile(decisions, 0.5) / 1e3,
        requests_per_s=number / ((1 - setting.warm) * until_s) if until_s else nan,
    )


def is_good(one: Outcome, setting: Setting) -> bool:
    """Answered within both objectives."""
    if one.first_s < 0 or one.first_s - one.arrived_s > setting.ttft_objective_s(one.prompt_tokens):
        return False
    gaps = one.output_tokens - 1
    return not gaps or (one.ended_s - one.first_s) * 1e3 / gaps <= setting.tpot_ms


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed; nan of none."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else nan
