"""`python -m bench.routing.picture runs.jsonl ... > ttft.svg`: who waits how long for a first token?

Of the usual setting. A panel a trace, a row a policy, a dot a load: its mean over the seeds of TTFT's 90th
percentile.
"""

import sys
from collections.abc import Iterator, Sequence
from math import floor, log10
from pathlib import Path
from statistics import fmean
from xml.sax.saxutils import escape

from bench.routing.plans import HITS, ORACLE
from bench.routing.report import Ran, complete, read
from bench.routing.table import OURS, runs

WIDTH, COLUMNS = 900, 2
_ROW, _HEAD, _FOOT = 17, 26, 30
_LEFT, _RIGHT = 158, 16
_LEAST_TICKS = 2  # one alone tells no scale
_SHADES = ("#9ecae1", "#4292c6", "#08306b")
_OURS_SHADES = ("#fdae6b", "#f16913", "#a63603")
_STYLE = "text{font:11px sans-serif;fill:#333}.head{font-weight:bold;font-size:12px}.ours{font-weight:bold}"

Dots = dict[str, list[tuple[float, float]]]
"""By policy: loads, and seconds."""


def main() -> None:
    scenes = read([Path(path) for path in sys.argv[1:]])
    print(picture({trace: dots(seeds) for (trace, setting), seeds in scenes.items() if setting == "usual"}))


def dots(seeds: Ran) -> Dots:
    """What is shown of a trace, the policies in order of the highest load's figure."""
    rows = complete(seeds)
    policies = dict.fromkeys(policy for _, policy, _ in rows[0] if policy != HITS)
    loads = sorted({load for load, _, _ in rows[0]})
    found = {
        policy: [(load, fmean(one.ttft_p90_s for one in runs(rows, load, policy))) for load in loads]
        for policy in policies
    }
    return dict(sorted(found.items(), key=lambda one: (one[0] != ORACLE, one[1][-1][1])))


def picture(panels: dict[str, Dots]) -> str:
    """An SVG document."""
    width = WIDTH / COLUMNS
    heights = [_HEAD + _ROW * len(panel) + _FOOT for panel in panels.values()]
    rows = [max(heights[n : n + COLUMNS]) for n in range(0, len(heights), COLUMNS)]
    body = []
    for n, (trace, panel) in enumerate(panels.items()):
        left, top = n % COLUMNS * width, sum(rows[: n // COLUMNS])
        body.append(f'<g transform="translate({left:g},{top:g})">{"".join(_panel(trace, panel, width))}</g>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {sum(rows)}">',
            f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="white"/>',
            *body,
            "</svg>",
        ]
    )


def _panel(trace: str, panel: Dots, width: float) -> Iterator[str]:
    loads = [load for load, _ in next(iter(panel.values()))]
    told = ", ".join(f"{load:.0%}" for load in loads)
    yield _text(width - _RIGHT, 16, f"{trace}: TTFT p90, s, at {told} load", "head", "end")
    values = [value for row in panel.values() for _, value in row]
    low, high = log10(min(values)) - 0.05, log10(max(values)) + 0.05
    bottom = _HEAD + _ROW * len(panel)

    def place(seconds: float) -> float:
        return _LEFT + (log10(seconds) - low) / (high - low) * (width - _LEFT - _RIGHT)

    for tick in _ticks(low, high):
        x = place(tick)
        yield f'<path d="M{x:.1f} {_HEAD}V{bottom}" stroke="#ddd"/>'
        yield _text(x, bottom + 13, f"{tick:g}", anchor="middle")
    for row, (policy, points) in enumerate(panel.items()):
        y = _HEAD + _ROW * (row + 0.5)
        yield _text(_LEFT - 10, y + 4, policy, "ours" if policy == OURS else "", "end")
        xs = [place(value) for _, value in points]
        yield f'<path d="M{min(xs):.1f} {y:g}H{max(xs):.1f}" stroke="#bbb"/>'
        shades = (_OURS_SHADES if policy == OURS else _SHADES)[-len(points) :]
        for x, shade, (load, value) in zip(xs, shades, points, strict=True):
            title = escape(f"{policy} at {load:.0%}: {value:.2f} s")
            yield f'<circle cx="{x:.1f}" cy="{y:g}" r="4.5" fill="{shade}"><title>{title}</title></circle>'


def _ticks(low: float, high: float) -> Sequence[float]:
    few: list[float] = []
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        every = [step * 10.0**power for power in range(floor(low), floor(high) + 1) for step in steps]
        few = [one for one in every if low <= log10(one) <= high]
        if len(few) >= _LEAST_TICKS:
            break
    return few


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


if __name__ == "__main__":
    main()
