"""How do answers part from the control's, beside how its own part?  By token, length and finish reason."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from analysis.report_lines import columns
from analysis.report_notes import Notes
from analysis.report_table import table

Json = Mapping[str, Any]
_HEADS = ["candidate", "of answers", "share", "floor", "beyond it", "interval"]
_NOTE = (
    "Floor: the control against itself, in the calibration. The hazard is the chance that a token is the"
    " first to differ, given that none before it did. Finish reasons are counts, without an interval: that"
    " of all that end otherwise is the finish reason's above."
)


def diff_lines(ranking: Json) -> list[str]:
    """A row for each figure that there is; nothing before there are any."""
    rows = [[*cells, interval or f"none: {why}"] for *cells, interval, why in _rows(ranking)]
    if not rows:
        return []
    lines = columns([_HEADS, *([str(cell) for cell in row] for row in rows)])
    return ["how answers part from the control's, beside how its own do:", *(f"  {line}" for line in lines)]


def diff_section(ranking: Json) -> str:
    """The same as HTML, why there is no interval once, under the table."""
    notes = Notes("diff")
    rows = [
        [*(escape(str(cell)) for cell in cells), f"{escape(interval or 'none')}{notes.mark(why)}"]
        for *cells, interval, why in _rows(ranking)
    ]
    if not rows:
        return ""
    shown = table([head.capitalize() for head in _HEADS], rows, "How answers part", 2)
    return f"<h2>How answers part</h2>{shown}{notes.html()}<p class=note>{_NOTE}</p>"


def _rows(ranking: Json) -> Iterator[tuple[str, str, str, str, str, str, str | None]]:
    """Who, what, its share, the floor's, what is beyond that, the interval of this or why there is none."""
    for candidate in ranking["candidates"]:
        diffs: Json = candidate.get("diffs") or {}
        if not diffs:
            continue
        name, hazard = candidate["name"], diffs["hazard"]
        if hazard["tokens"]:
            yield name, "divergence hazard, a token", *_figures(hazard, 3)
        for band in diffs["by_length"]:
            if band["pairs"]:
                yield (
                    name,
                    f"exact match, {band['tokens']} tokens ({band['pairs']} pairs)",
                    *_figures(band, 1),
                )
        for row in diffs["finish_reasons"]:
            if row["control"] != row["candidate"]:
                ended = f"ended {row['candidate']} for {row['control']} ({row['answers']})"
                share, own = _percent(row["share"], 1), _percent(row["floor"], 1)
                yield name, ended, share, own, _points(row["excess"], 1), "", "it is a count"


def _figures(said: Json, digits: int) -> tuple[str, str, str, str, str | None]:
    excess: Json = said["excess"] or dict.fromkeys(("value", "lower", "upper"))
    interval = ""
    if excess["lower"] is not None:
        interval = f"{_points(excess['lower'], digits)} … {_points(excess['upper'], digits)}"
    why = None if interval else said["why"] or "the control was not compared with itself for it"
    return (
        _percent(said["value"], digits),
        _percent(said["floor"], digits),
        _points(excess["value"], digits),
        interval,
        why,
    )


def _percent(share: float | None, digits: int) -> str:
    return "–" if share is None else f"{share:.{digits}%}"


def _points(share: float | None, digits: int) -> str:
    return "–" if share is None else f"{100 * share:+.{digits}f}"
