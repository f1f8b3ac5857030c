"""How does a decision look?  One self-contained page without scripts, with the front as a plot."""

from collections.abc import Mapping
from html import escape
from typing import Any

from analysis.cost.page import cost_html
from analysis.decision.measures import estimate, word
from analysis.decision.plot import plots
from analysis.decision.radar import radar
from analysis.decision.text import in_order, interval_of, is_winner, standing
from analysis.report_lines import change
from analysis.report_page import document
from analysis.report_table import table
from analysis.why.page import why_html

Json = Mapping[str, Any]
_BADGES = {
    "passed": "ok",
    "accepted": "none",
    "failed": "no",
    "open": "none",
    "met": "no",
    "not met": "ok",
    "unknown": "none",
}


def render_html(found: Json) -> str:
    """No script, no external request, every text escaped."""
    ranking = found["ranking"]
    name = str(ranking["experiment"])
    parts = [
        f"<h1>{escape(name)}</h1>",
        f"<p class=lead>{escape(found['headline'])}</p>",
        _facts(ranking),
        _candidates(found),
        plots(found),
        radar(found),
        cost_html(found["cost"]),
        why_html(found["why"]),
        _fresh(found),
        _gates(found),
        _conditions(found),
        _method(found),
    ]
    return document(f"{name}: Shadowlane decision", "".join(parts))


def _facts(ranking: Json) -> str:
    facts = {
        "Answer from": f"{ranking['pairs']} pairs, {ranking['windows']} windows",
        "α": f"{ranking['alpha']:g}",
        "Margin": f"±{ranking['margin'] * 100:g} %",
        "Epoch": ranking["epoch"],
    }
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(str(v))}</dd></div>" for k, v in facts.items())
    return f"<dl class=facts>{items}</dl>"


def _badge(state: str) -> str:
    return f"<span class='badge {_BADGES[state]}'>{escape(state)}</span>"


def _estimate(said: Json) -> str:
    return f"<b>{change(said['ratio'])}</b><small>{interval_of(said)}</small>"


def _candidates(found: Json) -> str:
    measures = list(found["weights"])
    none: Json = {"ratio": None, "lower": None, "upper": None}
    rows = []
    for candidate in in_order(found):
        name = candidate["name"]
        beaten = found["front"]["beaten_by"].get(name)
        on = "on the front" if name in found["front"]["on"] else f"beaten by {', '.join(beaten or ())}"
        on += ", out before the weights count" if name in found["front"]["out"] else ""
        rows.append(
            [
                f"{escape(name)}{' <span class=badge>wins</span>' if is_winner(found, name) else ''}",
                *(_estimate(estimate(found, candidate, measure)) for measure in measures),
                _estimate(found["scores"].get(name) or none),
                escape(on) if name in found["passes"] else "–",
            ]
        )
    heads = ["Candidate", *(f"{word(measure)} vs control" for measure in measures), "Score", "Front"]
    return f"<h2>Candidates</h2>{table(heads, rows, 'Candidates')}"


def _fresh(found: Json) -> str:
    winner = found["winner"]
    if winner is None:
        return ""
    rows = [
        [word(key), _estimate(winner["chosen_on"][key]), _estimate(winner["fresh"][key])]
        for key in winner["fresh"]
    ]
    heads = [
        escape(winner["name"]),
        f"On the {winner['chosen_by_windows']} windows that chose it",
        f"On {winner['fresh_windows']} fresh ones",
    ]
    note = "What chooses the best flatters it; only the fresh windows say how much better it is."
    return (
        f"<h2>The leader, estimated again</h2>{table(heads, rows, 'Fresh estimate')}<p class=note>{note}</p>"
    )


def _gates(found: Json) -> str:
    rows = [
        [escape(name), escape(gate["name"]), _badge(standing(gate)), escape(gate["detail"])]
        for name, own in found["gates"].items()
        for gate in own
    ]
    return f"<h2>Gates</h2>{table(['Candidate', 'Gate', 'State', 'Why'], rows, 'Gates')}"


def _conditions(found: Json) -> str:
    rows = [
        [
            escape(one["condition"]),
            escape(one["candidate"]),
            _badge(one["answer"]),
            escape(one["found"]) + (f"<small>{escape(one['note'])}</small>" if one["note"] else ""),
        ]
        for one in found["conditions"]
    ]
    if not rows:
        return ""
    return f"<h2>Conditions</h2>{table(['Fail if', 'Candidate', 'Answer', 'Found'], rows, 'Conditions')}"


def _method(found: Json) -> str:
    weights = ", ".join(f"{word(name)} {weight:g}" for name, weight in found["weights"].items())
    sentences = (
        "A candidate that fails a gate cannot win, however fast it is.",
        "One arm beats another where it is certain that it is worse in nothing by more than the margin and"
        " better in something by more than that; all these claims hold at once.",
        f"The score is the weighted mean of the changes ({escape(weights)}).",
        "The winner is the first candidate whose score is better than the control's by more than the margin,"
        " by an interval that is valid however often it is looked at; windows after that are fresh.",
    )
    return f"<h2>Method</h2><p class=text>{' '.join(sentences)}</p>"
