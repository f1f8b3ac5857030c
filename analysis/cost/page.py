"""How does cost look on the page?  The figures, and their curve over loads as inline SVG."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from analysis.cost.rows import compared, heads, is_known, notes, rows, short, slo_words, summary
from analysis.report_table import table

Json = Mapping[str, Any]
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 730, 14, 240
# What is drawn over load: the first of these that is known of any arm.
_DRAWN: Final = (
    ("per_million", "per million tokens"),
    ("joules_per_token", "joules per token"),
    ("tokens_per_gpu_s", "tokens per GPU-second"),
)


def cost_html(cost: Json) -> str:
    """What each arm costs under each load, and why where it is not said."""
    if not is_known(cost):
        why = "".join(f"<li>{escape(line)}</li>" for line in notes(cost))
        return f"<h2>Cost</h2><p class=text>No figure is known.</p><ul class=note>{why}</ul>"
    said = "".join(f"<li>{escape(line)}</li>" for line in (*summary(cost), *compared(cost)))
    why = "".join(f"<li>{escape(line)}</li>" for line in notes(cost))
    cells = [[escape(one) for one in row] for row in rows(cost)]
    return (
        f"<h2>Cost</h2><p class=text>At the SLO: {escape(slo_words(cost))}.</p><ul>{said}</ul>"
        f"{table([escape(one) for one in heads(cost)], cells, 'Cost by load', right_from=2)}"
        "<p class=note>Means of windows, each with its own interval, at the loads that were sent; multiples"
        " are of the usual load. Energy is the boards' alone.</p>"
        f"{curve(cost)}{f'<ul class=note>{why}</ul>' if why else ''}"
    )


def curve(cost: Json) -> str:
    """Each arm's figure by load; "" unless some arm was seen under two loads."""
    if all(len(said["curve"]) < 2 for said in cost["arms"].values()):
        return ""
    for key, words in _DRAWN:
        lines = {arm: _points(said, key) for arm, said in cost["arms"].items()}
        lines = {arm: points for arm, points in lines.items() if points}
        if lines:
            title = f"{cost['currency']} {words}" if key == "per_million" else words
            return _drawn(lines, title)
    return ""


Point = tuple[float, float, float, float, str]  # load, value, lower, upper, state of the SLO


def _points(said: Json, key: str) -> list[Point]:
    found = []
    for level in said["curve"]:
        one = level[key]["total"]
        if one["value"] is not None:
            low = one["value"] if one["lower"] is None else one["lower"]
            high = one["value"] if one["upper"] is None else one["upper"]
            found.append((level["requests_per_s"], one["value"], low, high, level["slo"]["state"] or "none"))
    return found


def _drawn(lines: Mapping[str, Sequence[Point]], title: str) -> str:
    points = [point for own in lines.values() for point in own]
    right = max(point[0] for point in points) * 1.05
    top = min(max(point[3] for point in points), 2.0 * max(point[1] for point in points)) * 1.05
    marks, keys = [], []
    for n, (arm, own) in enumerate(lines.items()):
        kind = n % 6
        at = [
            (_x(load, right), *(_y(min(v, top), top) for v in (value, low, high)))
            for load, value, low, high, _ in own
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in at)
        marks.append(f"<polyline class='line k{kind}' points='{path}' />")
        for (x, y, low, high), point in zip(at, own, strict=True):
            told = escape(f"{arm}: {short(point[1])} at {short(point[0])} requests/s, SLO: {point[4]}")
            marks.append(f"<line class=k{kind} x1={x:.1f} x2={x:.1f} y1={low:.1f} y2={high:.1f} />")
            radius = 5 if point[4] == "meets" else 3
            marks.append(
                f"<circle class=f{kind} cx={x:.1f} cy={y:.1f} r={radius}><title>{told}</title></circle>"
            )
        keys.append(f"<li><i class='key k{kind}'></i>{escape(arm)}</li>")
    return (
        f"<figure><figcaption>{escape(title)} by load (large dots: certain to meet the SLO)</figcaption>"
        f"<ul class=legend>{''.join(keys)}</ul>"
        f"<svg viewBox='0 0 750 270' role=img aria-label='{escape(title)} by load'>"
        f"<line class=axis x1={_LEFT} x2={_RIGHT} y1={_BOTTOM} y2={_BOTTOM} />"
        f"<line class=axis x1={_LEFT} x2={_LEFT} y1={_TOP} y2={_BOTTOM} />{''.join(marks)}"
        f"<text x={_LEFT - 6} y={_BOTTOM} text-anchor=end>0</text>"
        f"<text x={_LEFT - 6} y={_TOP + 8} text-anchor=end>{short(top)}</text>"
        f"<text x={_RIGHT} y={_BOTTOM + 18} text-anchor=end>{short(right)} requests/s</text></svg></figure>"
    )


def _x(value: float, right: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * value / right


def _y(value: float, top: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * value / top
