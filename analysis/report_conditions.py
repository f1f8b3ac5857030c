"""How does the report show the conditions that the arms ran under?  Load, GPUs, forced and scored tokens."""

from collections.abc import Mapping
from html import escape
from typing import Any

from analysis.report_lines import LATENCIES, change, marked_lines, throttling
from analysis.report_notes import Notes
from analysis.report_scored import scored_section
from analysis.report_table import number, table

Json = Mapping[str, Any]
_GIB = 1 << 30


def conditions(ranking: Json) -> str:
    """The sections of what is known, as HTML."""
    marked = "".join(f"<p class=note>{escape(line)}.</p>" for line in marked_lines(ranking))
    return f"{_forced(ranking)}{scored_section(ranking)}{_load(ranking)}{_hardware(ranking)}{marked}"


def _load(ranking: Json) -> str:
    load: Json = ranking.get("load") or {}
    arms: Json = load.get("arms") or {}
    if not arms:
        return ""
    own = load.get("production")
    rows = [[escape(name), number(mean, 1), _times(mean, own)] for name, mean in arms.items()]
    rows.append(["one production engine", number(own, 1), "1.00" if own else "–"])
    rate = load.get("rate")
    how = "so that the control is loaded as one production engine" if load.get("matched") else "as configured"
    note = "" if rate is None else f" Each conversation is copied {rate:.2f} times on average, {how}."
    shown = table(["Arm", "Requests in flight", "Times production's"], rows, "Load", 1)
    return (
        f"<h2>Load</h2>{shown}<p class=note>Means over time, live pairs only. Control and production run one"
        " configuration, so theirs should be alike; a faster candidate rightly has fewer in flight."
        f"{note}</p>"
    )


def _times(mean: float, production: float | None) -> str:
    return f"{mean / production:.2f}" if production else "–"


def _hardware(ranking: Json) -> str:
    rows = [
        [
            f"{escape(arm)}<small>{escape(gpu.get('name') or 'GPU')}</small>"
            f"<small>{escape(str(gpu['uuid']))}</small>",
            "–" if gpu.get("utilisation") is None else f"{gpu['utilisation']:.0%}",
            _memory(gpu.get("memory_used_bytes")),
            number(gpu.get("power_w"), 0),
            number(gpu.get("energy_wh"), 2),
            f"{number(gpu.get('sm_clock_mhz'), 0)} / {number(gpu.get('sm_clock_least_mhz'), 0)}",
            escape(throttling(gpu) or "–"),
            escape(", ".join(map(str, gpu.get("xid") or ())) or "none"),
        ]
        for arm, told in (ranking.get("hardware") or {}).items()
        for gpu in told["gpus"]
    ]
    if not rows:
        return ""
    heads = ["GPU", "Busy", "Memory GiB", "Power W", "Energy Wh", "Clock MHz", "Throttled", "XID"]
    return (
        f"<h2>GPUs</h2>{table(heads, rows, 'GPUs', 1)}<p class=note>Means over the readings; the most memory;"
        " the energy that the counters rose by; the mean and the least clock. XID: errors that the driver"
        " reported.</p>"
    )


def _memory(used_bytes: float | None) -> str:
    return "–" if used_bytes is None else f"{used_bytes / _GIB:.1f}"


def _forced(ranking: Json) -> str:
    forced: Json = ranking.get("forced") or {}
    if not forced:
        return ""
    if forced.get("why"):
        return f"<h2>At equal content</h2><p>Tokens were not forced: {escape(str(forced['why']))}.</p>"
    notes = Notes("forced")
    rows = [
        [escape(name), *(_cell(verdicts.get(key), notes) for key, _ in LATENCIES)]
        for name, verdicts in forced["candidates"].items()
    ]
    shown = table(["Candidate", *(word for _, word in LATENCIES)], rows, "At equal content")
    return (
        f"<h2>At equal content</h2>{shown}{notes.html()}"
        f"<p class=note>{forced['pairs']} of {forced['wanted_pairs']} pairs,"
        f" in {forced['windows']} windows, in which every arm decoded the control's own tokens: no"
        " difference of length or text is in these.</p>"
    )


def _cell(said: Json | None, notes: Notes) -> str:
    if said is None:
        return "–"
    known = said["lower"] is not None and said["upper"] is not None
    interval = f"{change(said['lower'])} … {change(said['upper'])}" if known else "no interval"
    interval += notes.mark(said["why"])
    label = escape(str(said["word"]))
    label = f"<span class='badge {label}'>{label}</span>{notes.mark(said['withheld'])}"
    return f"{label} <b>{change(said['ratio'])}</b><small>{interval}</small>"
