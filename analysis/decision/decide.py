"""What should run?  From a trial and the pairs it judged: gates, front, winner, its fresh estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.cost.axes import Axis, axes
from analysis.cost.figures import Recorded
from analysis.cost.section import section
from analysis.decision.conditions import Condition
from analysis.decision.evidence import Evidence
from analysis.decision.front import effects_of, front
from analysis.decision.gates import Bars, Gate, gates
from analysis.decision.judged import judged
from analysis.decision.text import headline
from analysis.decision.winner import Choice, choose, no_difference, not_told_apart, weighted
from analysis.measure import LATENCIES, Latency
from analysis.ranking import Trial
from analysis.stats.sequence import FEWEST_UNITS
from analysis.stats.windows import Windows
from analysis.verdict import interval, log_margin, ratio
from analysis.why.diagnosis import why
from analysis.why.signals import Telemetry

Answer = Literal["WINNER", "NO DIFFERENCE", "NONE PASSES", "UNDECIDED"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants: a weight for each latency that matters (empty: TTFT and TPOT alike), the bars of
    the gates, and conditions under which the whole fails."""

    weights: Mapping[Latency, float] = field(default_factory=dict)
    bars: Bars = field(default_factory=Bars)
    conditions: tuple[Condition, ...] = ()


def decide(
    trial: Trial,
    evidence: Evidence,
    wishes: Wishes,
    recorded: Recorded | None = None,
    telemetry: Telemetry | None = None,
) -> dict[str, Any]:
    """The decision, JSON-able; ConditionError where a condition names a candidate that there is not.

    `recorded`: what is known of the arms' cost, which makes further axes of the front; `telemetry`: what was
    seen of their engines and GPUs, which says why they are as fast as they are.

    `answer`: WINNER, with its estimate on windows that did not choose it; NO DIFFERENCE, where every
    candidate that passes is shown to be no better than the control by more than the margin; NONE PASSES the
    gates; else UNDECIDED.
    """
    ranking, windows = trial.ranking(), trial.windows
    weights = dict(wishes.weights) or _usual(ranking)
    objectives = list(weights)
    names = [candidate["name"] for candidate in ranking["candidates"]]
    alpha = trial.spec.alpha / max(1, len(names))
    margin = log_margin(trial.spec.margin)
    passing: dict[str, list[Gate]] = {
        candidate["name"]: gates(candidate, objectives, wishes.bars) for candidate in ranking["candidates"]
    }
    out = [name for name in names if any(gate.state == "failed" for gate in passing[name])]
    kept = [name for name in names if name not in out]
    effects = _effects(windows, names, objectives)
    scores = {name: weighted(effects[name], np.array(list(weights.values()))) for name in kept}
    numbers = [] if windows is None else windows.numbers()
    more = [] if recorded is None else axes(recorded, names, numbers)
    choice = choose(scores, alpha, margin) if kept else None
    answer = _answer(kept, choice, passing, no_difference(scores, alpha, margin))
    conditions = [one for c in wishes.conditions for one in judged(c, ranking, evidence, alpha)]
    found: dict[str, Any] = {
        "answer": answer,
        "weights": weights,
        "gates": {name: [gate.show() for gate in passing[name]] for name in names},
        "passes": kept,
        "front": _front(effects, ("control", *kept), more, trial.spec.alpha, margin),
        "scores": {name: _shown(score, alpha) for name, score in scores.items()},
        "winner": None if choice is None else _winner(choice, effects, scores, objectives, trial.spec.alpha),
        "conditions": [one.show() for one in conditions],
        "cost": None if recorded is None else section(recorded, trial.spec, more),
        "why": _why(recorded, telemetry, ("control", *names)),
        "ranking": ranking,
    }
    if choice is not None:
        found["winner"]["as_good"] = not_told_apart(scores, choice.winner, alpha)
    return {**found, "headline": headline(found)}


def _why(
    recorded: Recorded | None, telemetry: Telemetry | None, arms: Sequence[str]
) -> dict[str, Any] | None:
    if recorded is None or telemetry is None:
        return None
    return why(recorded.tally, telemetry, arms, recorded.window_ns)


def _front(
    effects: Mapping[str, NDArray[np.float64]],
    names: Sequence[str],
    more: Sequence[Axis],
    alpha: float,
    margin: float,
) -> dict[str, Any]:
    """Over the objectives, and cost and energy where they are known of all arms."""
    known = [axis for axis in more if axis.withheld is None]
    wide = {
        name: np.column_stack([effects[name], *(axis.of(name, len(effects[name])) for axis in known)])
        for name in names
    }
    objectives = wide["control"].shape[1]
    return {**front(wide, objectives, alpha, margin).show(), "axes": [axis.name for axis in known]}


def _usual(ranking: Json) -> dict[Latency, float]:
    """The first token and each further one count alike; where nothing is streamed, the whole answer."""
    if any(candidate["verdicts"]["tpot"]["units"] for candidate in ranking["candidates"]):
        return {"ttft": 1.0, "tpot": 1.0}
    return {"e2e": 1.0}


def _effects(
    windows: Windows | None, names: Sequence[str], objectives: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    series = [f"{latency} {name}" for name in names for latency in objectives]
    table = np.empty((0, len(series))) if windows is None else windows.table(series)
    return effects_of(table, names, len(objectives))


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
    effects: Mapping[str, NDArray[np.float64]],
    scores: Mapping[str, NDArray[np.float64]],
    objectives: Sequence[str],
    alpha: float,
) -> dict[str, Any]:
    """The estimates of the winner on the windows after its choice, and on those that chose it."""
    own = effects[choice.winner]
    past, fresh = (_whole(part) for part in (own[: choice.windows], own[choice.windows :]))
    return {
        "name": choice.winner,
        "chosen_by_windows": len(past),
        "fresh_windows": len(fresh),
        "enough": len(fresh) >= FEWEST_UNITS,
        "fresh": {name: _shown(fresh[:, at], alpha) for at, name in enumerate(objectives)},
        "fresh_score": _shown(scores[choice.winner][choice.windows :], alpha),
        "chosen_on": {name: _shown(past[:, at], alpha) for at, name in enumerate(objectives)},
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


def parse_weight(text: str) -> tuple[Latency, float]:
    """`tpot=2`: a latency and how much it counts.  ValueError says in one line what would do."""
    name, _, number = text.partition("=")
    latency = next((one for one in LATENCIES if one == name.strip()), None)
    try:
        weight = float(number)
    except ValueError:
        weight = 0.0
    if latency is None or not 0.0 < weight < float("inf"):
        raise ValueError(f"--weight {text!r}: write a latency and a number above 0, as in tpot=2 or ttft=0.5")
    return latency, weight
