"""The runs of all seeds as tables, and what they say about ours."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from math import isnan, sqrt
from statistics import fmean, stdev

from bench.routing.measures import Measures
from bench.routing.plans import HITS, ORACLE, Row

OURS = "prefix_cost"
_T95 = (0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # two-sided, by degrees of freedom
_JUDGED: Sequence[tuple[str, str, float]] = (("goodput", "goodput", 1.0), ("ttft_p90_s", "TTFT p90", -1.0))
_HEAD = "| policy | hit % | TTFT p50 | p90 | p99 s | goodput % | refused % | imbalance | decision µs |"


class Spread:
    """One figure over the seeds."""

    __slots__ = ("mean", "sd")

    def __init__(self, values: Sequence[float]) -> None:
        self.mean = fmean(values)
        self.sd = stdev(values) if len(values) > 1 else 0.0


def table(seeds: Sequence[Sequence[Row]]) -> Iterator[str]:
    """Markdown, a table a load; ± is the standard deviation over seeds."""
    for load in dict.fromkeys(load for load, _, _ in seeds[0]):
        yield f"\nLoad {load:.0%}\n\n{_HEAD}\n|---|{'--:|' * (_HEAD.count('|') - 2)}"
        for policy in dict.fromkeys(policy for at, policy, _ in seeds[0] if at == load):
            ran = runs(seeds, load, policy)
            yield _hits(ran) if policy == HITS else _line(policy, ran)


def brief(seeds: Sequence[Sequence[Row]]) -> Iterator[str]:
    """One table for all loads: means, and the standard deviation of what is judged."""
    loads = list(dict.fromkeys(load for load, _, _ in seeds[0]))
    names = ("hit %", "TTFT p90 s", "goodput %")
    heads = [f"{name} at {load:.0%}" for name in names for load in loads]
    yield f"| policy | {' | '.join(heads)} | imbalance |\n|---|{'--:|' * (len(heads) + 1)}"
    for policy in dict.fromkeys(policy for _, policy, _ in seeds[0]):
        ran = {load: runs(seeds, load, policy) for load in loads}
        cells = [_mean_sd(ran[load], "hit", 100, 1, sd=False) for load in loads]
        if policy == HITS:
            cells += [""] * (2 * len(loads) + 1)
        else:
            cells += [_mean_sd(ran[load], "ttft_p90_s", 1, 2) for load in loads]
            cells += [_mean_sd(ran[load], "goodput", 100, 1) for load in loads]
            cells.append(_mean_sd(ran[loads[-1]], "imbalance", 1, 2, sd=False))
        yield f"| {policy} | {' | '.join(cells)} |"


def _mean_sd(ran: Sequence[Measures], name: str, scale: float, digits: int, *, sd: bool = True) -> str:
    figure = Spread([getattr(one, name) for one in ran])
    noise = f" ± {figure.sd * scale:.{digits}f}" if sd and len(ran) > 1 else ""
    return f"{figure.mean * scale:.{digits}f}{noise}"


def runs(seeds: Sequence[Sequence[Row]], load: float, policy: str) -> list[Measures]:
    """A policy's measures at a load, by seed."""
    return [measures for rows in seeds for at, name, measures in rows if (at, name) == (load, policy)]


def behind(seeds: Sequence[Sequence[Row]]) -> Iterator[str]:
    """Where another policy is better than ours beyond noise: the paired difference's 95 % interval over seeds
    lies on its side, and it is of more than a percent."""
    for load in dict.fromkeys(load for load, _, _ in seeds[0]):
        ours = runs(seeds, load, OURS)
        for policy in dict.fromkeys(policy for _, policy, _ in seeds[0]):
            if policy in (OURS, ORACLE, HITS) or not ours:
                continue
            theirs = runs(seeds, load, policy)
            for field, words, sign in _JUDGED:
                ahead = [
                    sign * (getattr(b, field) - getattr(a, field)) for a, b in zip(ours, theirs, strict=True)
                ]
                mean = fmean(getattr(one, field) for one in ours)
                if _is_above(ahead, 0.01 * abs(mean)):
                    than = fmean(getattr(one, field) for one in theirs)
                    yield f"load {load:.0%}: {policy} has the better {words}, {than:.3g} to {mean:.3g}"


def _is_above(differences: Sequence[float], least: float) -> bool:
    mean, number = fmean(differences), len(differences)
    if number < 2:
        return mean > least
    half = _T95[min(number - 1, len(_T95) - 1)] * stdev(differences) / sqrt(number)
    return mean - half > 0.0 and mean > least


def _line(policy: str, ran: Sequence[Measures]) -> str:
    spread = {field.name: Spread([getattr(one, field.name) for one in ran]) for field in fields(Measures)}

    def cell(name: str, scale: float, digits: int, *, sd: bool = False) -> str:
        figure = spread[name]
        if isnan(figure.mean):
            return ""
        noise = f" ± {figure.sd * scale:.{digits}f}" if sd and len(ran) > 1 else ""
        return f"{figure.mean * scale:.{digits}f}{noise}"

    cells = (
        cell("hit", 100, 1, sd=True),
        cell("ttft_p50_s", 1, 2),
        cell("ttft_p90_s", 1, 2, sd=True),
        cell("ttft_p99_s", 1, 2),
        cell("goodput", 100, 1, sd=True),
        cell("refused", 100, 1),
        cell("imbalance", 1, 2),
        cell("decision_us", 1, 0),
    )
    return f"| {policy} | {' | '.join(cells)} |"


def _hits(ran: Sequence[Measures]) -> str:
    figure = Spread([one.hit for one in ran])
    return f"| {HITS} | {figure.mean * 100:.1f} ± {figure.sd * 100:.1f} |{'  |' * 7}"
