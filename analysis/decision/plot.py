"""Where do the arms stand, seen along two measures?  The front as inline SVG, with its intervals."""

from collections.abc import Mapping, Sequence
from html import escape
from math import exp, log
from typing import Any

from analysis.decision.measures import word
from analysis.decision.radar import axes_of
from analysis.report_lines import change

Json = Mapping[str, Any]
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 730, 14, 300


def plots(found: Json) -> str:
    """The first two objectives, and cost and energy, where they are known, over the first."""
    axes = axes_of(found)
    first, *rest = (word(measure) for measure in found["weights"])
    others = [one for one in dict.fromkeys([*rest[:1], "cost", "energy"]) if one != first]
    return "".join(_plot(found, axes, (first, other)) for other in others if {first, other} <= axes.keys())


def _plot(found: Json, axes: Mapping[str, Mapping[str, Json]], objectives: tuple[str, str]) -> str:
    """Two measures, each arm a point with both intervals."""
    names = sorted(str(c["name"]) for c in found["ranking"]["candidates"])
    arms = [(name, [axes[key][name] for key in objectives]) for name in names]
    reach = max(
        2.0 * log(1.0 + found["ranking"]["margin"]),
        *(abs(log(end)) for _, said in arms for one in said for end in _ends(one)),
    )
    marks = [_arm(n, name, said, reach, name in found["front"]["on"]) for n, (name, said) in enumerate(arms)]
    keys = "".join(f"<li><i class='key k{n % 6}'></i>{escape(name)}</li>" for n, (name, _) in enumerate(arms))
    x0, y0 = _x(0.0, reach), _y(0.0, reach)
    margin = log(1.0 + found["ranking"]["margin"])
    left, right = _x(-margin, reach), _x(margin, reach)
    top, bottom = _y(margin, reach), _y(-margin, reach)
    across, up = objectives
    return (
        f"<figure><figcaption>{across} and {up} against the control: left and down is better</figcaption>"
        f"<ul class=legend>{keys}</ul>"
        f"<svg viewBox='0 0 750 330' role=img aria-label='{across} and {up} of each candidate'>"
        f"<line class=one x1={x0:.1f} x2={x0:.1f} y1={_TOP} y2={_BOTTOM} />"
        f"<line class=one x1={_LEFT} x2={_RIGHT} y1={y0:.1f} y2={y0:.1f} />"
        f"<rect class=band x={left:.1f} width={right - left:.1f} y={top:.1f} height={bottom - top:.1f} />"
        f"<text x={x0 + 5:.1f} y={y0 - 5:.1f}>control</text>{''.join(marks)}"
        f"<text x={_LEFT} y={_BOTTOM + 22}>{across} {change(exp(-reach))}</text>"
        f"<text x={_RIGHT} y={_BOTTOM + 22} text-anchor=end>{across} {change(exp(reach))}</text>"
        f"<text x={_LEFT - 6} y={_BOTTOM} text-anchor=end>{change(exp(-reach))}</text>"
        f"<text x=2 y={_TOP + 8}>{up} {change(exp(reach))}</text></svg></figure>"
    )


def _ends(said: Json) -> list[float]:
    return [said[key] for key in ("ratio", "lower", "upper") if said[key] is not None and said[key] > 0.0]


def _x(value: float, reach: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * (value / reach + 1.0) / 2.0


def _y(value: float, reach: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * (value / reach + 1.0) / 2.0


def _arm(n: int, name: str, said: Sequence[Json], reach: float, on: bool) -> str:
    x, y = _x(log(said[0]["ratio"]), reach), _y(log(said[1]["ratio"]), reach)
    kind = n % 6
    lines = ""
    if len(_ends(said[0])) == 3 and len(_ends(said[1])) == 3:
        low, high = (_x(log(said[0][end]), reach) for end in ("lower", "upper"))
        down, top = (_y(log(said[1][end]), reach) for end in ("lower", "upper"))
        lines = (
            f"<line class=k{kind} x1={low:.1f} x2={high:.1f} y1={y:.1f} y2={y:.1f} />"
            f"<line class=k{kind} x1={x:.1f} x2={x:.1f} y1={down:.1f} y2={top:.1f} />"
        )
    told = escape(f"{name}: {change(said[0]['ratio'])}, {change(said[1]['ratio'])}")
    dot = f"<circle class='f{kind}' cx={x:.1f} cy={y:.1f} r={5 if on else 3}><title>{told}</title></circle>"
    return f"{lines}{dot}"
