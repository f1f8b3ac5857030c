"""What should run?  From a trial and the pairs it judged: gates, front, winner, its fresh estimate."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.decision.conditions import Condition
from analysis.decision.evidence import Evidence
from analysis.decision.front import front
from analysis.decision.gates import Bars, Gate, gates, too_early
from analysis.decision.judged import judged
from analysis.decision.measures import Measure, effects, refuse_unknown
from analysis.decision.text import headline
from analysis.decision.winner import Choice, choose, no_difference, not_told_apart
from analysis.measure import LATENCIES
from analysis.race import weights_of
from analysis.ranking import Trial
from analysis.spec import ExperimentSpec
from analysis.stats.sequence import FEWEST_UNITS
from analysis.stats.windows import Windows
from analysis.verdict import interval, log_margin, ratio
from analysis.weighing import Weights, usual, weighted

Answer = Literal["WINNER", "NO DIFFERENCE", "NONE PASSES", "UNDECIDED"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants: a weight for each measure that matters (empty: the race's, else TTFT and TPOT),
    the bars of the gates, and conditions under which the whole fails."""

    weights: Mapping[Measure, float] = field(default_factory=dict)
    bars: Bars = field(default_factory=Bars)
    conditions: tuple[Condition, ...] = ()


def decide(trial: Trial, evidence: Evidence, wishes: Wishes) -> dict[str, Any]:
    """The decision, JSON-able.

    ConditionError where a condition names a candidate that there is not; WeightError where cost or energy is
    weighed and not known of all arms.

    `answer`: WINNER, with its estimate on windows that did not choose it; NO DIFFERENCE, where every
    candidate that passes is shown to be no better than the control by more than the margin; NONE PASSES the
    gates; else UNDECIDED.
    """
    ranking, windows, resources = trial.ranking(), trial.windows, trial.resources
    axes = resources.axes(windows, trial.prices)
    unasked = _unasked(ranking, trial.spec)
    weights: Mapping[Measure, float] = wishes.weights or {one: unasked[one] for one in unasked}
    refuse_unknown(weights, axes)
    measures = list(weights)
    latencies = [one for one in LATENCIES if one in weights] or list(unasked)
    names = [candidate["name"] for candidate in ranking["candidates"]]
    alpha = trial.spec.alpha / max(1, len(names))
    margin = log_margin(trial.spec.margin)
    early = too_early(ranking)
    passing: dict[str, list[Gate]] = {
        candidate["name"]: gates(candidate, latencies, wishes.bars, early)
        for candidate in ranking["candidates"]
    }
    out = [name for name in names if any(gate.state == "failed" for gate in passing[name])]
    out_of_race = _out_of_race(ranking, windows)
    for candidate in ranking["candidates"]:
        if candidate["left"]:
            passing[candidate["name"]].append(Gate("race", "failed", candidate["left"]))
    kept = [name for name in names if name not in out]
    changes = effects(windows, names, measures, axes)
    scores = {name: weighted(changes[name], np.array(list(weights.values()))) for name in kept}
    along = [*latencies, *(axis.name for axis in axes if axis.withheld is None)]
    beside = {name: own for name, own in effects(windows, names, along, axes).items() if name not in out}
    edge = front(beside, len(along), trial.spec.alpha, margin)
    choice = choose(scores, alpha, margin, out_since(edge.since, out_of_race)) if kept else None
    # Those that left the race had a part in the choice until they did; they cannot be what it says.
    running = {name: score for name, score in scores.items() if name not in out_of_race}
    kept = list(running)
    # Of who left it may be that it is better: who stays is then not all there is.
    answer = _answer(kept, choice, passing, no_difference(scores, alpha, margin))
    conditions = [one for c in wishes.conditions for one in judged(c, ranking, evidence, alpha)]
    found: dict[str, Any] = {
        "answer": answer,
        "early": early,
        "weights": weights,
        "gates": {name: [gate.show() for gate in passing[name]] for name in names},
        "passes": kept,
        "front": {**edge.show(), "axes": along[len(latencies) :]},
        "scores": {name: _shown(score, alpha) for name, score in scores.items()},
        "winner": None if choice is None else _winner(choice, changes, scores, measures, trial.spec.alpha),
        "conditions": [one.show() for one in conditions],
        "cost": ranking.pop("cost"),
        "why": resources.why(windows),
        "ranking": {name: said for name, said in ranking.items() if name != "why"},
    }
    if choice is not None:
        worse = {*edge.since, *_beaten_in_race(ranking)}
        apart = {name: score for name, score in scores.items() if name not in worse}
        found["winner"]["as_good"] = not_told_apart(apart, choice.winner, alpha)
    return {**found, "headline": headline(found)}


def out_since(*ways: Mapping[str, int]) -> dict[str, int]:
    """After how many windows candidates were out, for whichever reason that was first."""
    return {name: min(way[name] for way in ways if name in way) for name in {*chain(*ways)}}


def _out_of_race(ranking: Json, windows: Windows | None) -> dict[str, int]:
    """After how many windows candidates left the race."""
    left = () if ranking["race"] is None or windows is None else ranking["race"]["left"]
    numbers = [] if windows is None else windows.numbers()
    return {one["name"]: bisect_right(numbers, one["window"]) for one in left}


def _beaten_in_race(ranking: Json) -> set[str]:
    """Who left the race because another is surely better; of who left at a rung that is not known."""
    left = () if ranking["race"] is None else ranking["race"]["left"]
    return {one["name"] for one in left if not one["rung"]}


def _unasked(ranking: Json, spec: ExperimentSpec) -> Weights:
    """What counts where the user does not say: what the race goes by, or what usually does.

    Before there are windows that is told by the control's answers so far.
    """
    verdicts = [candidate["verdicts"] for candidate in ranking["candidates"]]
    timed = any(one[latency]["units"] for one in verdicts for latency in LATENCIES)
    whole = ranking["control"]["tpot_ms"]["p50"] is None and ranking["control"]["e2e_ms"]["p50"] is not None
    if (spec.race is not None and spec.race.weights) or timed:
        return weights_of(spec.race, ranking["candidates"])
    return usual(is_streamed=not whole)


def _answer(
    kept: Sequence[str], choice: Choice | None, passing: Mapping[str, Sequence[Gate]], nothing: bool
) -> Answer:
    if not kept:
        return "NONE PASSES" if passing else "UNDECIDED"
    if choice is not None:
        passed = all(gate.state == "passed" for gate in passing[choice.winner])
        return "WINNER" if passed else "UNDECIDED"
    return "NO DIFFERENCE" if nothing else "UNDECIDED"


def _winner(
    choice: Choice,
    changes: Mapping[str, NDArray[np.float64]],
    scores: Mapping[str, NDArray[np.float64]],
    measures: Sequence[str],
    alpha: float,
) -> dict[str, Any]:
    """The estimates of the winner on the windows after its choice, and on those that chose it."""
    own = changes[choice.winner]
    past, fresh = (_whole(part) for part in (own[: choice.windows], own[choice.windows :]))
    return {
        "name": choice.winner,
        "chosen_by_windows": len(past),
        "fresh_windows": len(fresh),
        "enough": len(fresh) >= FEWEST_UNITS,
        "fresh": {name: _shown(fresh[:, at], alpha) for at, name in enumerate(measures)},
        "fresh_score": _shown(scores[choice.winner][choice.windows :], alpha),
        "chosen_on": {name: _shown(past[:, at], alpha) for at, name in enumerate(measures)},
    }


def _whole(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The windows with a value of every objective."""
    kept: NDArray[np.float64] = rows[~np.isnan(rows).any(axis=1)]
    return kept


def _shown(values: NDArray[np.float64], alpha: float) -> dict[str, Any]:
    values = values[~np.isnan(values)]
    found = interval(values, alpha)
    if found is None:
        return {"ratio": None, "lower": None, "upper": None, "units": len(values)}
    return {
        "ratio": ratio(found.mean),
        "lower": ratio(found.lower),
        "upper": ratio(found.upper),
        "units": found.units,
    }
