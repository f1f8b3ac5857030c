"""What does a ranking look like in a terminal?  A ranking in, rich renderables out; and `shadowlane top`.

Every number stands with its interval; a missing one is a dash, never 0.  Colour repeats what a word already
says.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from analysis import modes
from analysis.hidden import told
from analysis.report_lines import condition_lines
from analysis.report_scored import scored_lines
from analysis.standing import main_verdict
from analysis.wording import LATENCIES, unsaid_lines
from gateway.commands.progress import progress
from wire.plain import plain

OUTPUTS = (
    "exact_match",
    "edit_similarity",
    "first_divergence",
    "length_ratio",
    "finish_reason",
    "tool_calls",
)
STYLES = {
    "FASTER": "bold green", "SLOWER": "bold red", "EQUIVALENT": "cyan", "UNDECIDED": "dim",
    "SAME": "cyan", "DIVERGES": "bold yellow", "WITHHELD": "yellow",
}  # fmt: skip
WIDE = 110  # columns from which the table also shows tails and spreads
DASH = "–"

Json = Mapping[str, Any]


def ranking_table(ranking: Json, width: int = 80) -> Group:
    """The whole ranking for a terminal of `width` columns (80 or more)."""
    parts: list[RenderableType] = [heading(ranking), _verdicts(ranking, width), *_arm_lines(ranking)]
    parts += [Text(plain(line), "dim") for line in (*condition_lines(ranking), *scored_lines(ranking))]
    parts += _books(ranking)
    parts += _failed_checks(ranking)
    if summary := ranking.get("summary"):
        parts.append(Text(str(summary), style="bold"))
    return Group(*parts)


def heading(ranking: Json) -> Text:
    """One line: which experiment, which phase, how much has been seen, how sure it must be."""
    text = Text()
    text.append(str(ranking.get("experiment", DASH)), "bold")
    phase = str(ranking.get("phase", DASH))
    text.append(
        f"  {'A/A calibration' if phase == 'calibration' else phase}",
        "yellow" if phase == "calibration" else "green",
    )
    text.append(f"  {_count(ranking.get('pairs'))} pairs")
    if phase != "calibration":
        if (mode := ranking.get("mode", modes.LIVE)) == modes.LIVE:
            text.append(
                f"  {_count(ranking.get('windows'))} windows of {_fixed(ranking.get('window_s'), 1)} s"
            )
        else:
            text.append(f"  {_count(ranking.get('windows'))} {modes.units_of(mode)}")
    text.append(f"  {_fixed(ranking.get('elapsed_s'), 0)} s  α {ranking.get('alpha', DASH)}")
    text.append(f"  margin ±{_percent(ranking.get('margin'))}")
    if ranking.get("decided"):
        text.append("  decided", "bold")
    return text


def plain_line(ranking: Json) -> str:
    """The ranking in one line without colour, for logs and pipes."""
    parts = [heading(ranking).plain]
    for candidate in ranking.get("candidates", ()):
        main = main_verdict(candidate)
        latency = next(spelt for key, spelt in LATENCIES if candidate["verdicts"].get(key) is main)
        said = f"{latency} {main['word']} {_fixed(main['ratio'], 3)}, outputs {candidate['outputs']['label']}"
        parts.append(f"{candidate['name']}: {said}")
    return " | ".join(parts)


def _verdicts(ranking: Json, width: int) -> Table:
    wide = width >= WIDE
    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0) if wide else (0, 1, 0, 0), header_style="dim"
    )
    for name in ("#", "candidate", "metric", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("ratio", "interval"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_column("progress", no_wrap=True, min_width=10 if wide else 6)
    table.add_column("p50 ms", no_wrap=True, justify="right")
    if wide:
        table.add_column("p95 ms", no_wrap=True, justify="right")
        table.add_column("spread", no_wrap=True, justify="right")
        table.add_column("n", no_wrap=True, justify="right")
    for candidate in ranking.get("candidates", ()):
        for row in _candidate_rows(candidate, wide):
            table.add_row(*row)
    return table


def _candidate_rows(candidate: Json, wide: bool) -> list[list[RenderableType]]:
    rows: list[list[RenderableType]] = []
    verdicts: Json = candidate.get("verdicts", {})
    for metric, name in told([candidate], LATENCIES):
        verdict: Json = verdicts.get(metric) or {}
        head = (
            [_count(candidate.get("rank")), _short(str(candidate.get("name", DASH)))]
            if not rows
            else ["", ""]
        )
        times: Json = candidate.get(f"{metric}_ms") or {}
        row: list[RenderableType] = [
            *head,
            name,
            _word(verdict.get("word")),
            _fixed(verdict.get("ratio"), 3),
            _interval(verdict),
            _bar(verdict.get("progress"), 10 if wide else 6),
            _fixed(times.get("p50"), 1),
        ]
        if wide:
            seen = _count(candidate.get("n")) if not rows else ""
            row += [_fixed(times.get("p95"), 1), _fixed(verdict.get("spread"), 3), seen]
        rows.append(row)
    return [*rows, _outputs_row(candidate, wide)]


def _outputs_row(candidate: Json, wide: bool) -> list[RenderableType]:
    """Agreement of the outputs: the measure that lies farthest below its floor, or the first there is."""
    outputs: Json = candidate.get("outputs") or {}
    measured = [(name, outputs[name]) for name in OUTPUTS if isinstance(outputs.get(name), Mapping)]
    name, worst = _telling(measured)
    row: list[RenderableType] = [
        "", "", "outputs", _word(outputs.get("label")), _fixed(worst.get("value"), 3), _interval(worst),
        Text(f"floor {_fixed(worst.get('floor'), 3)}", "dim"), Text(name.replace("_match", ""), "dim"),
    ]  # fmt: skip
    return row + (["", "", f"{_count(candidate.get('errors'))} err"] if wide else [])


def _telling(measured: Sequence[tuple[str, Json]]) -> tuple[str, Json]:
    exact = [(name, measure) for name, measure in measured if name == "exact_match"]
    if exact and exact[0][1].get("value") is not None:
        return exact[0]
    valued = [(name, measure) for name, measure in measured if measure.get("value") is not None]
    return valued[0] if valued else ("", {})


def _arm_lines(ranking: Json) -> list[RenderableType]:
    """The arms without a verdict: the control, and production, which is only observed."""
    lines: list[RenderableType] = []
    for key, name in (("control", "control"), ("production", "production, observed only")):
        arm: Json = ranking.get(key) or {}
        if not arm:
            continue
        shown = []
        for metric, word in told(ranking.get("candidates", ()), LATENCIES):
            times: Json = arm.get(f"{metric}_ms") or {}
            shown.append(f"{word} {_fixed(times.get('p50'), 1)}/{_fixed(times.get('p95'), 1)}")
        counts = f"n {_count(arm.get('n'))}, {_count(arm.get('errors'))} err"
        lines.append(Text(f"{name} (p50/p95 ms): {'  '.join(shown)}  {counts}", "dim"))
    return lines


def _books(ranking: Json) -> list[RenderableType]:
    books: Json = ranking.get("books") or {}
    if not books:
        return []
    dropped: Json = books.get("dropped") or {}
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(dropped.items()) if count)
    text = (
        f"copies: {_count(books.get('admitted'))} admitted = {_count(books.get('paired'))} paired + dropped"
    )
    text = f"{text} ({reasons})" if reasons else f"{text} 0"
    still = (books.get("admitted") or 0) - (books.get("paired") or 0) - sum(dropped.values())
    return [Text(f"{text} + {_count(still)} under way" if still else text, "dim")]


def _failed_checks(ranking: Json) -> list[RenderableType]:
    lines: list[RenderableType] = []
    failed = [check for check in ranking.get("checks", ()) if check.get("ok") is False]
    for check in sorted(failed, key=lambda one: not one.get("withholds")):
        harmless = "withholds" in check and not check["withholds"]
        fails = "fails, for which no verdict is withheld" if harmless else "fails"
        said = f"check {check.get('name')} {fails}: {check.get('detail')}"
        lines.append(Text(plain(said), "yellow" if harmless else "bold red"))
    return lines + [Text(plain(line), "yellow") for line in unsaid_lines(ranking)]


def _word(label: object) -> Text:
    return Text(DASH, "dim") if label is None else Text(str(label), STYLES.get(str(label), ""))


def _interval(verdict: Json) -> str:
    lower, upper = verdict.get("lower"), verdict.get("upper")
    return DASH if lower is None and upper is None else f"{_fixed(lower, 3)}–{_fixed(upper, 3)}"


def _bar(progress: object, cells: int) -> Text:
    if not isinstance(progress, int | float):
        return Text(DASH, "dim")
    full = round(max(0.0, min(1.0, progress)) * cells)
    return Text("━" * full, "green" if full == cells else "blue").append("─" * (cells - full), "dim")


def _fixed(value: object, places: int) -> str:
    return f"{value:.{places}f}" if isinstance(value, int | float) else DASH


def _percent(value: object) -> str:
    return f"{100 * value:g} %" if isinstance(value, int | float) else DASH


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else DASH


def _short(name: str, most: int = 14) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def run_top(admin_url: str, experiment: str | None = None, period_s: float = 1.0) -> int:
    """Show the rankings of a running Shadowlane until interrupted, or once where output is no terminal.

    Returns the exit code: 0, or 1 (with the reason on stderr) when the admin API cannot be read.
    """
    try:
        return asyncio.run(_top(admin_url.rstrip("/"), experiment, period_s))
    except KeyboardInterrupt:
        return 0


async def _top(admin_url: str, experiment: str | None, period_s: float) -> int:
    console = Console()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        try:
            pictures = await _pictures(session, admin_url, experiment, console.width)
            if not console.is_terminal:
                console.print(pictures)
                return 0
            with Live(pictures, console=console, auto_refresh=False, screen=True) as live:
                while True:
                    await asyncio.sleep(period_s)
                    live.update(await _pictures(session, admin_url, experiment, console.width), refresh=True)
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            Console(stderr=True).print(f"shadowlane top: {admin_url} does not answer (--admin): {reason}")
            return 1


async def _pictures(
    session: aiohttp.ClientSession, admin_url: str, experiment: str | None, width: int
) -> Group:
    names = [experiment] if experiment else await experiment_names(session, admin_url)
    pictures: list[RenderableType] = []
    pauses = await _pauses(session, admin_url)
    for name in names:
        async with session.get(f"{admin_url}/api/experiments/{name}", raise_for_status=True) as response:
            pictures += [ranking_table(await response.json(), width), *pauses.get(name, ()), Text()]
    return Group(*pictures or [Text("no experiment is configured")])


async def _pauses(session: aiohttp.ClientSession, admin_url: str) -> dict[str, list[RenderableType]]:
    """Of each experiment, whether it is paused, and how often its brakes paused it."""
    async with session.get(f"{admin_url}/api/experiments", raise_for_status=True) as response:
        listed = await response.json()
    experiments = listed.get("experiments", []) if isinstance(listed, Mapping) else []
    return {one["name"]: _pause_lines(one) for one in experiments if isinstance(one, Mapping)}


def _pause_lines(experiment: Json) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if why := experiment.get("paused"):
        said = f"paused ({why['reason']}): {why['detail']}; {why['remedy']}"
        lines.append(Text(said, "bold yellow"))
    if said := progress(experiment.get("slots")):
        lines.append(Text(said))
    trips = [f"{reason} {n}" for reason, n in (experiment.get("trips") or {}).items() if n]
    if trips:
        lines.append(Text(f"paused by itself since the start: {', '.join(trips)}", "yellow"))
    return lines


async def experiment_names(session: aiohttp.ClientSession, admin_url: str) -> list[str]:
    """The names of the experiments that the admin API lists."""
    async with session.get(f"{admin_url}/api/experiments", raise_for_status=True) as response:
        listed = await response.json()
    if isinstance(listed, Mapping):
        listed = listed.get("experiments", [])
    return [_name_of(item) for item in listed]


def _name_of(item: object) -> str:
    if isinstance(item, Mapping):
        return str(item.get("name") or item.get("experiment"))
    return str(item)
