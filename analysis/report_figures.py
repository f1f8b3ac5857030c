"""How the report draws: interval bars and charts over time, as inline SVG."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any


def change(ratio: float | None) -> str:
    """A ratio as a change in per cent: 0.75 is −25.0 %; – when unknown."""
    return "–" if ratio is None else f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")


def reach(ranking: Mapping[str, Any]) -> float:
    """How far from 1, in log ratio, all interval bars reach."""
    said = [verdict for candidate in ranking["candidates"] for verdict in candidate["verdicts"].values()]
    ends = [verdict[key] for verdict in said for key in ("ratio", "lower", "upper") if verdict[key]]
    far = max([2.5 * math.log1p(ranking["margin"]), *(abs(math.log(end)) for end in ends if end > 0)])
    return min(math.log(4), far * 1.05) or 0.1


def bar(said: Mapping[str, Any], label: str, margin: float, limit: float) -> str:
    def x(ratio: float) -> float:
        return 60 + 58 * max(-1.0, min(1.0, math.log(ratio) / limit))

    low, high = x(1 / (1 + margin)), x(1 + margin)
    mark = ""
    if said["lower"] and said["upper"] and said["ratio"]:
        left, right = x(said["lower"]), x(said["upper"])
        mark = (
            f"<line class=span x1={left:.1f} x2={max(right, left + 1):.1f} y1=7 y2=7 />"
            f"<rect class=dot x={x(said['ratio']) - 1.5:.1f} y=2 width=3 height=10 />"
        )
    return (
        f"<svg class='interval {escape(label)}' viewBox='0 0 120 14' preserveAspectRatio=none"
        f" aria-hidden=true><rect class=band x={low:.1f} width={high - low:.1f} y=0 height=14 />"
        f"<line class=axis x1=2 x2=118 y1=7 y2=7 />"
        f"<line class=one x1=60 x2=60 y1=0 y2=14 />{mark}</svg>"
    )


def has_series(ranking: Mapping[str, Any], metric: str) -> bool:
    return any(len(c.get("series", {}).get(metric, ())) > 1 for c in ranking["candidates"])


def chart(ranking: Mapping[str, Any], metric: str, name: str) -> str:
    """All candidates over time around the margin band: each window a dot, the mean so far a line."""
    series = [
        (c["name"], [(t, math.log(r)) for t, r in c.get("series", {}).get(metric, ()) if r and r > 0])
        for c in sorted(
            ranking["candidates"], key=lambda c: str(c["name"])
        )  # colours outlive a change of rank
    ]
    points = [point for _, line in series for point in line]
    if not points:
        return ""
    margin = math.log1p(ranking["margin"])
    first, last = min(t for t, _ in points), max(t for t, _ in points)
    low = min(-1.5 * margin, *(v for _, v in points), -1e-3) * 1.1
    high = max(1.5 * margin, *(v for _, v in points), 1e-3) * 1.1

    def at(t: float, value: float) -> tuple[float, float]:
        return 60 + 680 * (t - first) / max(last - first, 1e-9), 10 + 160 * (high - value) / (high - low)

    lines = []
    for n, (_, line) in enumerate(series):
        step = 1 + len(line) // 700
        places = [at(t, v) for t, v in line[::step]]
        dots = "".join(f"<circle cx={x:.1f} cy={y:.1f} r=1.3 />" for x, y in places)
        total, means = 0.0, []
        for k, (t, value) in enumerate(line, 1):
            total += value
            means.append(at(t, total / k))
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in means[::step])
        lines.append(f"<g class='win f{n % 6}'>{dots}</g><polyline class='line k{n % 6}' points='{path}' />")
    ticks = "".join(
        f"<line class=grid x1=60 x2=740 y1={at(first, v)[1]:.1f} y2={at(first, v)[1]:.1f} />"
        f"<text x=54 y={at(first, v)[1] + 4:.1f} text-anchor=end>{change(math.exp(v))}</text>"
        for v in (low / 1.1, 0.0, high / 1.1)
    )
    band = at(first, margin)[1], at(first, -margin)[1]
    keys = "".join(f"<li><i class='key k{n % 6}'></i>{escape(c)}</li>" for n, (c, _) in enumerate(series))
    return (
        f"<figure><figcaption>{name} against control over time, dots windows, lines means so far</figcaption>"
        f"<ul class=legend>{keys}</ul>"
        f"<svg viewBox='0 0 750 196' role=img aria-label='{name} ratio of each candidate over time'>"
        f"<rect class=band x=60 width=680 y={band[0]:.1f} height={band[1] - band[0]:.1f} />"
        f"{ticks}{''.join(lines)}"
        f"<text x=60 y=190>{first:.0f} s</text>"
        f"<text x=740 y=190 text-anchor=end>{last:.0f} s</text></svg></figure>"
    )
