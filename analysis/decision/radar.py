"""How do the arms compare along all measures at once?  A radar as inline SVG, with its intervals."""

from collections.abc import Mapping, Sequence
from html import escape
from math import cos, exp, log, pi, sin
from typing import Any, Final

from analysis.report_lines import change

Json = Mapping[str, Any]
Said = Mapping[str, Any]
_LATENCIES: Final = ("ttft", "itl", "tpot", "e2e")
_CENTRE_X, _CENTRE_Y, _RADIUS = 375.0, 170.0, 130.0
_FEWEST: Final = 3


def axes_of(found: Json) -> dict[str, dict[str, Said]]:
    """Every measure that is known of all candidates: each one's ratio to the control, less being better."""
    candidates = found["ranking"]["candidates"]
    axes = {key.upper(): {c["name"]: c["verdicts"][key] for c in candidates} for key in _LATENCIES}
    for axis in (found.get("cost") or {}).get("axes", ()):
        if axis["withheld"] is None:
            axes[axis["name"]] = axis["candidates"]
    return {name: said for name, said in axes.items() if said and all(one["ratio"] for one in said.values())}


def radar(found: Json) -> str:
    """ "" below three measures.  The ring is the control; outside it is better, on a log scale."""
    axes = axes_of(found)
    if len(axes) < _FEWEST:
        return ""
    names = sorted(c["name"] for c in found["ranking"]["candidates"])
    said = [one for own in axes.values() for one in own.values()]
    reach = max(
        2.0 * log(1.0 + found["ranking"]["margin"]), *(abs(log(e)) for one in said for e in _ends(one))
    )
    spokes = []
    for n, name in enumerate(axes):
        x, y = _at(n, len(axes), -reach, reach)
        spokes.append(f"<line class=grid x1={_CENTRE_X:.0f} y1={_CENTRE_Y:.0f} x2={x:.1f} y2={y:.1f} />")
        end = "middle" if abs(x - _CENTRE_X) < 1.0 else "start" if x > _CENTRE_X else "end"
        outside = 12.0 if y > _CENTRE_Y + 1.0 else -6.0
        spokes.append(f"<text x={x:.1f} y={y + outside:.1f} text-anchor={end}>{escape(name)}</text>")
    marks = [_arm(n % 6, name, [own[name] for own in axes.values()], reach) for n, name in enumerate(names)]
    keys = "".join(f"<li><i class='key k{n % 6}'></i>{escape(name)}</li>" for n, name in enumerate(names))
    return (
        "<figure><figcaption>All measures against the control (the dashed ring): outside is better"
        f"</figcaption><ul class=legend>{keys}</ul>"
        "<svg viewBox='0 0 750 330' role=img aria-label='all measures of each candidate'>"
        f"{''.join(spokes)}"
        f"<circle class=one fill=none cx={_CENTRE_X:.0f} cy={_CENTRE_Y:.0f} r={_RADIUS / 2:.0f} />"
        f"{''.join(marks)}<text x=10 y=320>edge {change(exp(-reach))}, centre {change(exp(reach))};"
        " bars are intervals</text>"
        "</svg></figure>"
    )


def _ends(said: Said) -> list[float]:
    return [said[key] for key in ("ratio", "lower", "upper") if said[key] is not None and said[key] > 0.0]


def _at(n: int, axes: int, value: float, reach: float) -> tuple[float, float]:
    """Where a log ratio lies on the n-th spoke: `reach` at the centre, 0 half way, -`reach` at the edge."""
    far = _RADIUS * (1.0 - value / reach) / 2.0
    angle = 2.0 * pi * n / axes - pi / 2.0
    return _CENTRE_X + far * cos(angle), _CENTRE_Y + far * sin(angle)


def _arm(kind: int, name: str, said: Sequence[Said], reach: float) -> str:
    count = len(said)
    corners = [_at(n, count, log(one["ratio"]), reach) for n, one in enumerate(said)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    bars = ""
    for n, one in enumerate(said):
        if len(_ends(one)) == 3:
            (x1, y1), (x2, y2) = (_at(n, count, log(one[end]), reach) for end in ("lower", "upper"))
            bars += f"<line class=k{kind} x1={x1:.1f} y1={y1:.1f} x2={x2:.1f} y2={y2:.1f} />"
    return f"<polygon class='line k{kind}' points='{path}'><title>{escape(name)}</title></polygon>{bars}"
