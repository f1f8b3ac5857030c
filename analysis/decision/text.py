"""How does a decision read on a terminal?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.cost.rows import text as cost_text
from analysis.decision.measures import estimate, word
from analysis.report_lines import change, columns
from analysis.stats.sequence import FEWEST_UNITS
from analysis.why.rows import text as why_text

Json = Mapping[str, Any]
SIGNS = {"passed": "pass", "accepted": "accepted", "failed": "FAIL", "open": "open"}
_NOT_SHOWN = " Quality not shown: nothing tells that its answers are no worse; that was accepted."


def headline(found: Json) -> str:
    """The decision in a sentence or two."""
    answer, winner = found["answer"], found["winner"]
    unseen = _NOT_SHOWN if answer == "WINNER" and _accepted(found, winner["name"], "quality") else ""
    margin = found["ranking"]["margin"]
    if answer == "WINNER":
        if not winner["enough"]:
            missing = FEWEST_UNITS - winner["fresh_windows"]
            return (
                f"{winner['name']} wins. By how much is not said yet: the windows that chose it flatter it,"
                f" and {missing} more are needed that did not.{unseen}"
            )
        as_good = f" As good, perhaps: {', '.join(winner['as_good'])}." if winner["as_good"] else ""
        said = ", ".join(_estimate(name, value) for name, value in winner["fresh"].items())
        return f"{winner['name']} wins: {said}, on windows that had no part in choosing it.{as_good}{unseen}"
    if answer == "NO DIFFERENCE":
        return (
            f"No difference worth having: no candidate that passes is better than the control by more than"
            f" {margin:.0%}. Keep what runs."
        )
    if answer == "NONE PASSES":
        return "No candidate passes the gates. Keep what runs."
    if found["early"] is not None:
        return f"Undecided, {found['early']}."
    if winner is not None:
        gates_open = [g["name"] for g in found["gates"][winner["name"]] if g["state"] == "open"]
        return f"Undecided: {winner['name']} leads, and a gate is open: {', '.join(gates_open)}."
    left = [one["name"] for one in (found["ranking"]["race"] or {"left": ()})["left"]]
    if left:
        return (
            f"Undecided: of those in the race none is shown to be better, or no better, than the control by"
            f" {margin:.0%}, and {', '.join(left)} left the race: by what it does not go by they may be."
        )
    return f"Undecided: none is shown to be better, or no better, than the control by {margin:.0%}."


def _accepted(found: Json, name: str, gate: str) -> bool:
    """Whether a candidate's gate passes only because the user accepts what was not shown."""
    return any(one["accepted"] for one in found["gates"][name] if one["name"] == gate)


def _estimate(name: str, said: Json) -> str:
    low, high = ((said[end] - 1.0) * 100.0 for end in ("lower", "upper"))
    return f"{word(name)} {(said['ratio'] - 1.0) * 100.0:+.1f} % ({low:+.1f} … {high:+.1f})"


def render_text(found: Json) -> str:
    """The decision as plain text: headline, a row for each candidate, gates that do not pass, conditions."""
    ranking = found["ranking"]
    measures = list(found["weights"])
    lines = [
        f"{ranking['experiment']}  epoch {ranking['epoch']}  {ranking['pairs']} pairs,"
        f" {ranking['windows']} windows  α {ranking['alpha']:g}, margin ±{ranking['margin'] * 100:g} %",
        found["headline"],
        "",
        *columns(_rows(found, measures)),
        "",
        *_gates(found),
        *_front(found),
    ]
    weights = ", ".join(f"{word(name)} {weight:g}" for name, weight in found["weights"].items())
    lines.append(f"score: {weights}; the weighted mean of the changes in the geometric mean")
    if found["conditions"]:
        lines += ["", *columns(_conditions(found))]
    lines += ["", *cost_text(found["cost"]), "", *why_text(found["why"])]
    return "\n".join(lines) + "\n"


def _rows(found: Json, measures: Sequence[str]) -> list[list[str]]:
    rows = [["candidate", "gates", *(word(name) for name in measures), "score", "interval"]]
    for candidate in in_order(found):
        name = candidate["name"]
        score: Json = found["scores"].get(name) or {"ratio": None, "lower": None, "upper": None}
        rows.append(
            [
                f"{name} (wins)" if is_winner(found, name) else name,
                state_of(found, name),
                *(change(estimate(found, candidate, measure)["ratio"]) for measure in measures),
                change(score["ratio"]),
                interval_of(score),
            ]
        )
    return rows


def in_order(found: Json) -> list[Json]:
    """The candidates: those that pass before the others, the winner first, then by score."""

    def place(candidate: Json) -> tuple[bool, bool, float, str]:
        name = candidate["name"]
        score = (found["scores"].get(name) or {}).get("ratio")
        out = name not in found["passes"]
        return (out, not is_winner(found, name), float("inf") if score is None else score, name)

    return sorted(found["ranking"]["candidates"], key=place)


def is_winner(found: Json, name: str) -> bool:
    """Whether it is the winner of a decision that has one."""
    return bool(found["answer"] == "WINNER" and found["winner"]["name"] == name)


def state_of(found: Json, name: str) -> str:
    """All gates of a candidate in one word."""
    states = {standing(gate) for gate in found["gates"][name]}
    return next(SIGNS[state] for state in ("failed", "open", "accepted", "passed") if state in states)


def standing(gate: Json) -> str:
    """The state of a gate; "accepted" where it passes on the user's word alone."""
    return "accepted" if gate["accepted"] else str(gate["state"])


def interval_of(said: Json) -> str:
    """– when unknown."""
    if said["lower"] is None or said["upper"] is None:
        return "–"
    return f"{change(said['lower'])} … {change(said['upper'])}"


def _gates(found: Json) -> Iterator[str]:
    for name, own in found["gates"].items():
        for gate in own:
            if standing(gate) != "passed":
                yield f"{SIGNS[standing(gate)]} {name}, {gate['name']}: {gate['detail']}"


def _front(found: Json) -> Iterator[str]:
    front = found["front"]
    more = f" (cost among the measures: {', '.join(front['axes'])})" if front["axes"] else ""
    yield f"nothing beats, with certainty: {', '.join(front['on']) or 'none'}{more}"
    for name, others in front["beaten_by"].items():
        leaves = ", and out before the weights count" if name in front["out"] else ""
        yield f"{name} is beaten by {', '.join(others)}{leaves}"


def _conditions(found: Json) -> list[list[str]]:
    rows = [["fail if", "candidate", "", "found"]]
    for one in found["conditions"]:
        note = f"  [{one['note']}]" if one["note"] else ""
        rows.append([one["condition"], one["candidate"], one["answer"].upper(), f"{one['found']}{note}"])
    return rows
