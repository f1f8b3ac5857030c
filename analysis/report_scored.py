"""How far are distributions apart, by the control's tokens as all arms score them?  As text and as HTML."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from analysis.report_lines import change, columns
from analysis.report_table import table

Json = Mapping[str, Any]
METRICS = (
    ("kl_k3", "KL (k3)"),
    ("kl_top", "KL (top)"),
    ("logprob_gap", "perplexity"),
    ("flips", "flips"),
    ("flips_when_sure", "sure flips"),
)
_HEADS = ["candidate", "metric", "value", "floor", "excess", "interval"]


def scored_lines(ranking: Json) -> list[str]:
    """How far the phase came, and each candidate's distances beyond the control's from itself."""
    scored: Json = ranking.get("scored") or {}
    if not scored:
        return []
    if scored.get("why"):
        return [f"tokens were not scored: {scored['why']}"]
    far = f"{scored['pairs']} of {scored['wanted_pairs']} pairs"
    lines = [f"distributions over the control's tokens (scored): {far}, {scored['windows']} windows"]
    rows = list(_rows(scored))
    return [*lines, *(f"  {line}" for line in columns([_HEADS, *rows]))] if rows else lines


def scored_section(ranking: Json) -> str:
    """The same as HTML; nothing where it was not asked for."""
    scored: Json = ranking.get("scored") or {}
    if not scored:
        return ""
    title = "<h2>Distributions</h2>"
    if scored.get("why"):
        return f"{title}<p>Tokens were not scored: {escape(str(scored['why']))}.</p>"
    rows = [[escape(cell) for cell in row] for row in _rows(scored)]
    return (
        f"{title}{table([head.capitalize() for head in _HEADS], rows, 'Distributions', 2)}<p class=note>"
        f"{scored['pairs']} of {scored['wanted_pairs']} pairs, in {scored['windows']} windows, in which every"
        " arm said how likely it finds the control's own tokens. Floor: the control against itself; excess:"
        " what is beyond it, pair by pair.</p>"
    )


def _rows(scored: Json) -> Iterator[list[str]]:
    for name, found in scored["outputs"].items():
        for metric, word in METRICS:
            one = found.get(metric) or {}
            if one.get("value") is None:
                continue
            unit, excess = one["unit"], one.get("excess") or {}
            low, high = (_said(unit, excess.get(end), signed=True) for end in ("lower", "upper"))
            yield [
                name,
                word,
                _said(unit, one["value"]),
                _said(unit, one.get("floor")),
                _said(unit, excess.get("value"), signed=True),
                f"{low} … {high}" if excess else "–",
            ]


def _said(unit: str, value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "–"
    if unit == "ratio":
        return change(value)
    sign = "+" if signed else ""
    return f"{value:{sign}.2%}" if unit == "share" else f"{value:{sign}.4f} nats"
