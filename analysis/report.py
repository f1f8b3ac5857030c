"""What does an experiment's log say?  The ranking by replay, as JSON, as text, as a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from analysis.cost.presets import Slo
from analysis.cost.prices import Prices
from analysis.hidden import told
from analysis.modes import production_line, replayed, units_of
from analysis.ranking import Trial
from analysis.replay import replay
from analysis.report_claims import claim_lines
from analysis.report_diffs import diff_lines
from analysis.report_lines import change, condition_lines
from analysis.report_page import render_html as render_html
from analysis.report_running import running_lines
from analysis.report_scored import scored_lines
from analysis.resources import OtherArmsError
from analysis.spec import ExperimentSpec
from analysis.store import LogReader
from analysis.wording import LATENCIES, unsaid_lines


def report(
    log_path: str | Path, prices: Prices | None = None, slo: Slo | None = None, also: Sequence[Path] = ()
) -> dict[str, Any]:
    """The ranking of a log: the same records through the same code as live, so the same ranking.

    `prices` are what arms cost an hour; `slo` stands in place of the experiment's own; `also` are logs of the
    same arms under other loads, for what they cost.  An unfinished record at a log's end is left out.  Raises
    LogError, in one line, when a log cannot be used, OtherArmsError where two do not belong together.
    """
    past = LogReader(Path(log_path))
    trial = read(past, Trial(spec_of(past, slo), past.header.epoch, prices=prices))
    add_loads(trial, Path(log_path), also, slo)
    return trial.ranking()


def spec_of(past: LogReader, slo: Slo | None) -> ExperimentSpec:
    """The experiment of a log, with `slo` in place of its own, if there is one."""
    return past.header.spec if slo is None else slo.in_place_of(past.header.spec)


def read(past: LogReader, trial: Trial) -> Trial:
    """The trial with all records of a log, which is closed then.  Raises LogError."""
    try:
        replay(past, trial)
    finally:
        past.close()
    return trial


def add_loads(trial: Trial, log: Path, also: Sequence[Path], slo: Slo | None) -> None:
    """Takes logs of the same arms under other loads than `log`, which is the trial's, for what they cost.

    LogError, and OtherArmsError also where a log or its copy is given twice: its pairs would count twice.
    """
    known = {_beginning(log): log} if also else {}
    for path in also:
        beginning = _beginning(path)
        if beginning in known:
            raise OtherArmsError(f"{path} has the pairs of {known[beginning]}: give each log once")
        known[beginning] = path
        past = LogReader(path)
        other = read(past, Trial(spec_of(past, slo), past.header.epoch))
        trial.resources.beside(other.resources, other.windows)


def _beginning(path: Path) -> tuple[object, ...]:
    """By what a log and its copies are known: its header and first pair; the file where it has no pair."""
    past = LogReader(path)
    try:
        first = next((body for kind, body in past if kind == "pair"), None)
    finally:
        past.close()
    if first is None:
        return (path.resolve(),)
    return past.header, first.id, first.at_ns, first.received_ns


def to_json(value: Any) -> bytes:
    """JSON with sorted keys; what is not a finite number is null. The same value gives the same bytes."""
    return msgspec.json.encode(value, enc_hook=_plain, order="deterministic")


def _plain(value: Any) -> Any:
    """numpy's scalars, if any slipped in, as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} has no place in JSON")


def render_text(ranking: Mapping[str, Any]) -> str:
    """The ranking for a terminal, plain text, at most 110 columns where names are short."""
    mode = ranking.get("mode", "live")
    length = f" of {ranking['window_s']:.1f} s" if ranking["window_s"] and mode == "live" else ""
    done = f", {said}" if (said := replayed(ranking.get("replay"))) else ""
    lines = [
        f"{ranking['experiment']}  fleet {ranking['fleet']}  {ranking['phase']}  epoch {ranking['epoch']}",
        f"{ranking['pairs']} pairs, {ranking['windows']} {units_of(mode)}{length}{done},"
        f" α {ranking['alpha']:g}, margin ±{ranking['margin'] * 100:g} %",
        ranking.get("summary") or "",
        "",
    ]
    width = max([9, *(len(candidate["name"]) for candidate in ranking["candidates"])])
    lines.append(f" #  {'candidate':<{width}}  metric  verdict      change   interval               outputs")
    for candidate in sorted(ranking["candidates"], key=lambda c: (c["rank"] is None, c["rank"] or 0)):
        lines.extend(_candidate_lines(candidate, width))
    lines.append("")
    lines.extend(unsaid_lines(ranking))
    lines.extend(claim_lines(ranking))
    for check in ranking["checks"]:
        state = {True: "ok  ", False: "FAIL"}.get(check["ok"], "open")
        mend = f"; to mend it: {check['mend']}" if check["ok"] is False and check.get("mend") else ""
        lines.append(f"{state} {check['name']}: {check['detail']}{mend}")
    books = ranking["books"]
    dropped = ", ".join(f"{reason} {n}" for reason, n in sorted(books["dropped"].items())) or "none"
    lines.extend(condition_lines(ranking))
    lines.extend(diff_lines(ranking))
    lines.extend(scored_lines(ranking))
    lines.extend(running_lines(ranking))
    lines.append(f"books: {books['admitted']} admitted, {books['paired']} paired, dropped: {dropped}")
    lines.append(production_line(mode, ranking["production"].get("beside", {}).get("why", "")))
    return "\n".join(lines) + "\n"


def _candidate_lines(candidate: Mapping[str, Any], width: int) -> list[str]:
    lines = []
    for place, (key, name) in enumerate(told([candidate], LATENCIES)):
        said = candidate["verdicts"].get(key)
        if said is None:
            continue
        known = said["lower"] is not None and said["upper"] is not None
        interval = f"{change(said['lower'])} … {change(said['upper'])}" if known else "–"
        who = (
            f"{candidate['rank'] or '-':>2}  {candidate['name']:<{width}}"
            if place == 0
            else " " * (width + 4)
        )
        outputs = candidate["outputs"].get("label", "") if place == 0 else ""
        figures = f"{said['word']:<10}  {change(said['ratio']):>8}  {interval:<21}"
        lines.append(f"{who}  {name:<6}  {figures}  {outputs}".rstrip())
    return lines
