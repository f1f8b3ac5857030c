"""How the report looks: one self-contained page without scripts, which can be saved, printed and sent."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from analysis.hidden import told
from analysis.modes import AGAINST, LIVE, REPLAY, how, replayed, units_of
from analysis.report_claims import claims
from analysis.report_conditions import conditions
from analysis.report_diffs import diff_section
from analysis.report_figures import bar, change, chart, has_series, reach
from analysis.report_notes import Notes
from analysis.report_running import running
from analysis.report_table import number, table

METRICS = (("ttft", "TTFT"), ("visible", "Visible text"), ("itl", "ITL"), ("tpot", "TPOT"), ("e2e", "E2E"))
OUTPUTS = (
    "exact_match",
    "first_divergence",
    "edit_similarity",
    "length_ratio",
    "finish_reason",
    "tool_calls",
)
SIGNS = {"FASTER": "▲", "SLOWER": "▼", "EQUIVALENT": "=", "SAME": "=", "DIVERGES": "≠", "WITHHELD": "!"}
_STYLE = Path(__file__).parent / "web" / "static" / "report.css"
_NO_REQUESTS = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_html(ranking: Mapping[str, Any]) -> str:
    """The whole report as one HTML document: no script, no external request, every text escaped."""
    title = f"{ranking['experiment']}: Shadowlane report"
    parts = [
        f"<h1>{escape(str(ranking['experiment']))}</h1>",
        f"<p class=lead>{escape(ranking.get('summary') or '')}</p>",
        _facts(ranking),
        _verdicts(ranking),
        *(chart(ranking, key, name) for key, name in _told(ranking) if has_series(ranking, key)),
        _outputs(ranking),
        diff_section(ranking),
        claims(ranking),
        _checks(ranking),
        _latencies(ranking),
        conditions(ranking),
        running(ranking),
        _books(ranking),
        _method(ranking),
        _again(ranking),
    ]
    return document(title, "".join(parts))


def document(title: str, body: str) -> str:
    """A page with our style around `body`, which is HTML already."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_NO_REQUESTS}">'
        f'<meta name=color-scheme content="light dark"><link rel=icon href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE.read_text()}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _badge(label: str) -> str:
    return f"<span class='badge {escape(label)}'>{SIGNS.get(label, '?')} {escape(label)}</span>"


def _facts(ranking: Mapping[str, Any]) -> str:
    window_s, mode = ranking["window_s"], ranking.get("mode", LIVE)
    facts = {
        "Fleet": ranking["fleet"],
        "Phase": ranking["phase"],
        "Pairs": ranking["pairs"],
        units_of(mode).capitalize(): f"{ranking['windows']}"
        + (f" of {window_s:.1f} s" if window_s and mode == LIVE else ""),
        **({"Replay": done} if (done := replayed(ranking.get("replay"))) else {}),
        "Autocorrelation time": "–"
        if ranking.get("tau_pairs") is None
        else f"{ranking['tau_pairs']:.1f} pairs",
        "α": f"{ranking['alpha']:g}",
        "Margin": f"±{ranking['margin'] * 100:g} %",
        "Duration": f"{ranking.get('elapsed_s') or 0:.0f} s",
        "Epoch": ranking["epoch"],
    }
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(str(v))}</dd></div>" for k, v in facts.items())
    return f"<dl class=facts>{items}</dl>"


def _told(ranking: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    return told(ranking["candidates"], METRICS)


def _ranked(ranking: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return sorted(ranking["candidates"], key=lambda c: (c["rank"] is None, c["rank"] or 0, c["name"]))


def _verdicts(ranking: Mapping[str, Any]) -> str:
    limit, shown, notes = reach(ranking), _told(ranking), Notes("verdict")
    rows = [
        [
            f"{candidate['rank'] or '–'}. {escape(candidate['name'])}"
            f"<small>{candidate['n']} answers, {candidate['errors']} errors</small>",
            *(_verdict(candidate["verdicts"].get(key), ranking["margin"], limit, notes) for key, _ in shown),
            _badge(candidate["outputs"]["label"]) + notes.mark(candidate["outputs"]["lacking"]),
        ]
        for candidate in _ranked(ranking)
    ]
    heads = ["Candidate", *(f"{name} vs control" for _, name in shown), "Outputs"]
    scale = f"{change(math.exp(-limit))} to {change(math.exp(limit))}"
    return (
        f"<h2>Verdicts</h2>{table(heads, rows, 'Verdicts')}{notes.html()}"
        f"<p class=note>Change in the geometric mean"
        f" against control; less is better. Bars run from {scale};"
        f" the band is the ±{ranking['margin'] * 100:g} % margin.</p>"
    )


def _verdict(said: Mapping[str, Any] | None, margin: float, limit: float, notes: Notes) -> str:
    if said is None:
        return "–"
    label = str(said["word"])
    known = said["lower"] is not None and said["upper"] is not None
    interval = f"{change(said['lower'])} … {change(said['upper'])}" if known else "no interval"
    figure, marks = bar(said, label, margin, limit), notes.mark(said["withheld"])
    interval += notes.mark(said["why"])
    return f"{_badge(label)}{marks} <b>{change(said['ratio'])}</b>{figure}<small>{interval}</small>"


def _outputs(ranking: Mapping[str, Any]) -> str:
    shown, notes = (
        _outputs_told([candidate["outputs"] for candidate in ranking["candidates"]]),
        Notes("output"),
    )

    def cell(said: Mapping[str, Any] | None) -> str:
        if said is None:
            return "–"
        known = said["lower"] is not None and said["upper"] is not None
        interval = f"{number(said['lower'])} … {number(said['upper'])}" if known else "no interval"
        interval += notes.mark(said["why"])
        return f"{number(said['value'])}<small>{interval}</small><small>floor {number(said['floor'])}</small>"

    rows = [
        [
            escape(c["name"]),
            _badge(c["outputs"]["label"]) + notes.mark(c["outputs"]["lacking"]),
            *(cell(c["outputs"].get(k)) for k in shown),
        ]
        for c in _ranked(ranking)
    ]
    heads = ["Candidate", "Outputs", *(key.replace("_", " ") for key in shown)]
    note = "The floor is how well control agrees with itself when asked twice: no candidate can do better."
    shown_table = table(heads, rows, "Output agreement", 2)
    return f"<h2>Output agreement</h2>{shown_table}{notes.html()}<p class=note>{note}</p>"


def _outputs_told(outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics that are always shown, and of the others those that had something to measure."""
    there = {name for each in outputs for name in each}
    measured = {
        name
        for each in outputs
        for name, said in each.items()
        if isinstance(said, Mapping) and said.get("value") is not None
    }
    return [name for name in OUTPUTS if name in there] + sorted(measured.difference(OUTPUTS))


def _checks(ranking: Mapping[str, Any]) -> str:
    said = {True: "<span class='badge ok'>✓ passed</span>", False: "<span class='badge no'>✕ failed</span>"}
    open_ = "<span class='badge none'>… open</span>"
    rows = [
        [escape(check["name"].replace("_", " ")), said.get(check["ok"], open_), _why(check)]
        for check in ranking["checks"]
    ]
    return f"<h2>Can this be trusted?</h2>{table(['Check', 'Result', 'Why'], rows, 'Checks')}"


def _why(check: Mapping[str, Any]) -> str:
    mend = check.get("mend") if check["ok"] is False else None
    return escape(check["detail"] or "") + (f"<small>To mend it: {escape(mend)}.</small>" if mend else "")


def _latencies(ranking: Mapping[str, Any]) -> str:
    arms = [*((escape(c["name"]), c) for c in _ranked(ranking)), ("control", ranking["control"])]
    asked = ranking.get("mode", LIVE) != REPLAY
    beside = "observed only, not comparable" if asked else "not asked: a recording is replayed"
    arms.append((f"production <small>{beside}</small>", ranking["production"]))
    rows = []
    for name, arm in arms:
        if not arm:
            continue
        figures = [arm.get(f"{key}_ms") or {} for key, _ in _told(ranking)]
        cells = [f"{number(f.get('p50'), 1)} / {number(f.get('p95'), 1)}" for f in figures]
        rows.append([name, str(arm["n"]), str(arm["errors"]), *cells])
    heads = ["Arm", "Answers", "Errors", *(name for _, name in _told(ranking))]
    beside = ranking["production"].get("beside", {}).get("why", "not comparable to production")
    note = f"Median / 95th percentile in ms. Candidates compare with control only: {escape(beside)}."
    return f"<h2>Latencies</h2>{table(heads, rows, 'Latencies', 1)}<p class=note>{note}</p>"


def _books(ranking: Mapping[str, Any]) -> str:
    books = ranking["books"]
    dropped = sorted(books["dropped"].items(), key=lambda item: (-item[1], item[0]))
    lost = sum(n for _, n in dropped)
    rest = books["admitted"] - books["paired"] - lost
    text = f"{books['admitted']} admitted = {books['paired']} paired + {lost} dropped"
    text += (
        f" + {rest} in flight" if rest > 0 else f" ({-rest} too many: the books do not close)" if rest else ""
    )
    rows = [[escape(reason.replace("_", " ")), str(n)] for reason, n in dropped]
    reasons = table(["Dropped because", "Copies"], rows, "Copies dropped", 1) if rows else ""
    return f"<h2>Books of the copies</h2><p>{text}</p>{reasons}"


def _method(ranking: Mapping[str, Any]) -> str:
    alpha, margin = f"{ranking['alpha']:g}", f"{ranking['margin'] * 100:g} %"
    live = ranking.get("mode", LIVE) == LIVE
    sentences = (
        how(ranking.get("mode", LIVE)),
        f"In a calibration phase the control is compared with {_against(ranking)}, which"
        f"{' fixes the window length from the pairs’ autocorrelation and' if live else ''}"
        " says how much outputs differ without any change of configuration.",
        "For each pair and metric the log ratio of candidate to control is taken, and the mean over a"
        f" {'window of consecutive pairs' if live else 'block of two slots'} is one statistical unit.",
        f"The interval is a confidence sequence at α = {alpha} shared by all candidates, valid however"
        f" often it is looked at: FASTER and SLOWER mean that all of it lies beyond the"
        f" ±{margin} margin, EQUIVALENT that all of it lies within.",
        "An error counts against its arm and is never left out,"
        " and a verdict is withheld, with the reason, when"
        " a check on load, timing, warm-up or books fails.",
    )
    return f"<h2>Method</h2><p class=text>{' '.join(sentences)}</p>"


def _against(ranking: Mapping[str, Any]) -> str:
    by = (ranking.get("calibration") or {}).get("by")
    return "itself" if by is None else escape(AGAINST[by])


def _again(ranking: Mapping[str, Any]) -> str:
    name = escape(str(ranking["experiment"]))
    return (
        "<h2>To reproduce</h2><p class=text>The experiment's log holds every measure this page is made of,"
        " and no text. Replaying it gives the same figures, byte for byte:</p>"
        f"<pre>shadowlane report {name} --html report.html</pre>"
    )
