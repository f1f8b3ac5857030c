"""How does a decision read in a pull request?  GitHub's Markdown, a table for the candidates."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.cost.rows import compared, heads, notes, rows, slo_words, summary
from analysis.decision.measures import estimate, word
from analysis.decision.text import in_order, interval_of, is_winner, standing, state_of
from analysis.report_lines import change
from analysis.why.rows import HEADS, tested
from analysis.why.rows import lines as why_lines
from analysis.why.rows import rows as why_rows

Json = Mapping[str, Any]
_ANSWERS = {"met": "**met**", "not met": "not met", "unknown": "unknown"}


def render_markdown(found: Json) -> str:
    """Headline, candidates, gates that do not pass, conditions, how it was decided."""
    ranking = found["ranking"]
    measures = list(found["weights"])
    parts = [f"### Shadowlane: {_cell(ranking['experiment'])}", "", f"**{_cell(found['headline'])}**", ""]
    heads = ["Candidate", "Gates", *(f"{word(name)} vs control" for name in measures), "Score"]
    parts += _table(heads, [_row(found, candidate, measures) for candidate in in_order(found)])
    closed = [
        f"- {_cell(name)}, {gate['name']} **{standing(gate)}**: {_cell(gate['detail'])}"
        for name, own in found["gates"].items()
        for gate in own
        if standing(gate) != "passed"
    ]
    beaten = [
        f"- {_cell(name)}, beaten by {_cell(', '.join(found['front']['beaten_by'][name]))}: **out** before"
        " the weights count"
        for name in found["front"]["out"]
    ]
    parts += ["", *closed, *beaten] if closed or beaten else []
    if found["conditions"]:
        rows = [
            [
                f"`{one['condition']}`",
                _cell(one["candidate"]),
                _ANSWERS[one["answer"]],
                _cell(one["found"] + (f" ({one['note']})" if one["note"] else "")),
            ]
            for one in found["conditions"]
        ]
        parts += ["", *_table(["Fail if", "Candidate", "Answer", "Found"], rows)]
    parts += ["", *_cost(found["cost"])]
    cells = [[_cell(one) for one in row] for row in why_rows(found["why"])]
    parts += ["", f"**Why**: {_cell(tested(found['why']))}.", "", *_table(HEADS, cells), ""]
    parts += [f"- {_cell(line)}" for line in why_lines(found["why"])]
    weights = ", ".join(f"{word(name)} {weight:g}" for name, weight in found["weights"].items())
    parts += [
        "",
        f"<sub>{ranking['pairs']} pairs in {ranking['windows']} windows; α {ranking['alpha']:g} over all"
        f" candidates and looks, margin ±{ranking['margin'] * 100:g} %; score: {weights}. Less is"
        " better.</sub>",
    ]
    return "\n".join(parts) + "\n"


def _cost(cost: Json) -> list[str]:
    parts = [f"**Cost** at the SLO: {_cell(slo_words(cost))}.", ""]
    parts += [f"- {_cell(line)}" for line in (*summary(cost), *compared(cost))]
    cells = [[_cell(one) for one in row] for row in rows(cost)]
    parts += ["", *_table([_cell(one) for one in heads(cost)], cells)]
    whys = [f"- withheld or in doubt: {_cell(note)}" for note in notes(cost)]
    return [*parts, "", *whys] if whys else parts


def _row(found: Json, candidate: Json, measures: Sequence[str]) -> list[str]:
    name = candidate["name"]
    said = [estimate(found, candidate, measure) for measure in measures]
    score: Json = found["scores"].get(name) or {"ratio": None, "lower": None, "upper": None}
    return [
        f"**{_cell(name)}** (wins)" if is_winner(found, name) else _cell(name),
        state_of(found, name),
        *(f"{change(one['ratio'])} ({interval_of(one)})" for one in said),
        f"{change(score['ratio'])} ({interval_of(score)})",
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(text: str) -> str:
    """What a name or a detail says is text, not markup: none of it opens a cell, a tag or an emphasis."""
    kept = str(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    for mark in "|*_`[]":
        kept = kept.replace(mark, f"\\{mark}")
    return kept
