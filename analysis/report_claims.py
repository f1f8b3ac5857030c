"""What else is claimed of the candidates?  Shares, percentiles, who is beaten: as text and as HTML."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from analysis.hidden import hides, told
from analysis.modes import units_of
from analysis.report_lines import LATENCIES, change
from analysis.report_table import table

Json = Mapping[str, Any]
_LATENCIES = (("ttft", "TTFT"), ("visible", "visible text"), *LATENCIES)
_WORDS = {"errors": "failed", "slo": "beyond an objective"}
_LABELS = {"MORE": "more", "FEWER": "fewer", "NO_MORE": "no more", "UNDECIDED": "undecided"}
_PERCENTILES = ("p50", "p95", "p99")


def claim_lines(ranking: Json) -> list[str]:
    """Everything that is claimed beside the latencies' means; nothing of what is not."""
    lines = [
        f"{name}, {what}: {ours} of answers, control {theirs}; {excess} ({label})"
        for name, what, theirs, ours, excess, label in _rates(ranking)
    ]
    lines.extend(
        f"{name}, golden requests: "
        + (f"{ours} of {count} right, control {theirs} ({label})" if count != "0" else label)
        for name, count, theirs, ours, label in _golden(ranking)
    )
    for name, latency, pairs, cells in _percentiles(ranking):
        told = ", ".join(f"{key} {cell}" for key, cell in zip(_PERCENTILES, cells, strict=True))
        lines.append(f"{name}, percentiles of {latency} over the first {pairs} pairs, for one look: {told}")
    lines.extend(race_lines(ranking))
    lines.extend(
        f"{one['name']} is beaten by {one['by']}, since window {one['units']}"
        for one in ranking.get("beaten", ())
    )
    if (differ := _differ(ranking)) is not None:
        lines.append(f"differ from the control, by e-BH over all candidates on one metric: {differ}")
    return lines


def claims(ranking: Json) -> str:
    """The same for the report's page."""
    parts = []
    if rates := list(_rates(ranking)):
        rows = [[escape(cell) for cell in row] for row in rates]
        heads = ["Candidate", "Answers that", "Control", "Candidate", "Difference, points", "So"]
        note = (
            "Shares and their differences are means of the same windows: they hold at every look."
            " Slow: longer than 19 in 20 of the control's answers took in the calibration. A failed answer is"
            " slow, too."
        )
        shown = table(heads, rows, "Failed and slow answers", 2)
        parts.append(f"<h2>Failed and slow answers</h2>{shown}<p class=note>{note}</p>")
    if golden := list(_golden(ranking)):
        rows = [[escape(cell) for cell in row] for row in golden]
        heads = ["Candidate", "Golden requests", "Control right", "Candidate right", "So"]
        shown = table(heads, rows, "Golden requests", 2)
        parts.append(f"<h2>Golden requests</h2>{shown}")
    if percentiles := list(_percentiles(ranking)):
        rows = [
            [escape(name), latency, str(pairs), *(escape(cell) for cell in cells)]
            for name, latency, pairs, cells in percentiles
        ]
        note = (
            "Change of a percentile with its interval by block bootstrap, over so many first pairs as were"
            " fixed beforehand. Each holds for one look, not for looking until it pleases."
        )
        shown = table(["Candidate", "Latency", "Pairs", *_PERCENTILES], rows, "Percentiles", 2)
        parts.append(f"<h2>Percentiles against control</h2>{shown}<p class=note>{note}</p>")
    if told := race_lines(ranking):
        items = "".join(f"<li>{escape(line)}</li>" for line in told)
        parts.append(f"<h2>The race</h2><ul>{items}</ul>")
    beaten = [f"{one['name']} by {one['by']}" for one in ranking.get("beaten", ())]
    if beaten:
        parts.append(f"<p>Beaten by another candidate: {escape(', '.join(beaten))}.</p>")
    return "".join(parts)


def race_lines(ranking: Json) -> list[str]:
    """Who left the race and why, and when the next rung comes; nothing where there is no race."""
    race: Json | None = ranking.get("race")
    if race is None:
        return []
    lines = [f"{c['name']} {c['left']}; it gets no more copies" for c in ranking["candidates"] if c["left"]]
    told = f"race: {len(race['running'])} of {len(ranking['candidates'])} candidates are in"
    if race["next_rung_units"] is not None:
        told += f", the next rung comes after {race['next_rung_units']} {units_of(ranking['mode'])}"
    if race["waits_for"] is not None:
        told += f" and waits for {race['waits_for']}, whose verdict is withheld"
    return [*lines, told]


def _rates(ranking: Json) -> Iterator[tuple[str, str, str, str, str, str]]:
    for candidate in ranking["candidates"]:
        for rate, said in (candidate.get("rates") or {}).items():
            if rate == "slow_visible" and not hides(candidate):
                continue
            latency = dict(_LATENCIES).get(rate.removeprefix("slow_"))
            slow = f"{latency} beyond {said['beyond_ms']:.0f} ms" if said["beyond_ms"] is not None else rate
            excess = "no interval before 2 windows"
            if said["lower"] is not None:
                ends = (said["excess"], said["lower"], said["upper"])
                excess = "{:+.1f} ({:+.1f} … {:+.1f})".format(*(100 * end for end in ends))
            shares = (f"{said['control']:.1%}", f"{said['candidate']:.1%}")
            yield candidate["name"], _WORDS.get(rate, slow), *shares, excess, _LABELS[said["label"]]


def _golden(ranking: Json) -> Iterator[tuple[str, str, str, str, str]]:
    for candidate in ranking["candidates"]:
        said: Json = candidate.get("quality") or {}
        if not said.get("awaited"):
            continue
        requests, shares, label = said["requests"], ("–", "–"), "none is marked yet"
        if requests:
            shares = (f"{said['control_passed']:.0%}", f"{said['candidate_passed']:.0%}")
            label = "nobody got one right" if said["neither"] == requests else said["label"].lower()
        if said["unmarked"]:
            label += f"; of {said['unmarked']}{' more' if requests else ''} there is no word"
        yield candidate["name"], str(requests), *shares, label


def _percentiles(ranking: Json) -> Iterator[tuple[str, str, int, list[str]]]:
    for candidate in ranking["candidates"]:
        for key, latency in told([candidate], _LATENCIES):
            said = (candidate.get("percentiles") or {}).get(key)
            if said is not None and said["horizon"] is not None:
                yield candidate["name"], latency, said["horizon"], [_cell(said[p]) for p in _PERCENTILES]


def _cell(said: Json) -> str:
    if said["ratio"] is None:
        return str(said["refused"])
    return f"{change(said['ratio'])} ({change(said['lower'])} … {change(said['upper'])})"


def _differ(ranking: Json) -> str | None:
    if len(ranking["candidates"]) < 2:
        return None
    found = [
        f"{latency} {' '.join(names)}"
        for key, latency in told(ranking["candidates"], _LATENCIES)
        if (names := (ranking.get("discoveries") or {}).get(key))
    ]
    return ", ".join(found) or None
