"""What does `shadowlane rank` do?  Replays a log, decides, prints; its exit status is a gate."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO

from analysis.arm_figures import has_slo
from analysis.cost.energy import GpuReadings
from analysis.cost.figures import Recorded
from analysis.cost.presets import parse_slo
from analysis.cost.prices import ArmPrice, Prices
from analysis.cost.tally import Tally
from analysis.decision.conditions import ConditionError, parse
from analysis.decision.decide import Wishes, decide, parse_weight
from analysis.decision.evidence import Evidence
from analysis.decision.gates import Bars
from analysis.decision.markdown import render_markdown
from analysis.decision.page import render_html
from analysis.decision.text import render_text
from analysis.measure import PairRecord
from analysis.ranking import Trial
from analysis.replay import replay
from analysis.report import to_json
from analysis.store import LogError, LogReader
from analysis.why.signals import Telemetry
from config.prices import load_prices
from gateway.report import UnreadableError, find

HOLDS: Final = 0
MET: Final = 3
UNKNOWN: Final = 4


class WrongError(ValueError):
    """A flag says what cannot be; the one-line text says what would do."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed after `shadowlane rank`."""

    log: str
    state_dir: Path
    fail_if: Sequence[str] = ()
    weights: Sequence[str] = ()
    accept_outputs: bool = False
    unknown_passes: bool = False
    form: str = "text"
    html: str | None = None
    prices: str | None = None
    slo: str | None = None


def rank(asked: Asked, out: TextIO | None = None) -> int:
    """Print the decision; the exit status: 0, 3 where a condition is met, 4 where none is and one is unknown.

    Raises UnreadableError for the log or the page, WrongError for a flag.
    """
    found = _decided(asked)
    forms: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
        "text": render_text,
        "json": lambda found: to_json(found).decode() + "\n",
        "markdown": render_markdown,
    }
    stream = sys.stdout if out is None else out
    stream.write(forms[asked.form](found))
    if asked.html is not None:
        try:
            Path(asked.html).write_text(render_html(found), encoding="utf-8")
        except OSError as error:
            raise UnreadableError(f"cannot write {asked.html}: {error.strerror}") from error
    return status(found, unknown_passes=asked.unknown_passes)


def status(found: Mapping[str, Any], *, unknown_passes: bool) -> int:
    """The exit status of a decision."""
    answers = {one["answer"] for one in found["conditions"]}
    if "met" in answers:
        return MET
    return UNKNOWN if "unknown" in answers and not unknown_passes else HOLDS


def _decided(asked: Asked) -> dict[str, Any]:
    try:
        conditions = tuple(parse(text) for text in asked.fail_if)
        weights = dict(parse_weight(text) for text in asked.weights)
        slo = None if asked.slo is None else parse_slo(asked.slo)
        prices = None if asked.prices is None else _prices(Path(asked.prices))
    except ValueError as error:
        raise WrongError(str(error)) from error
    wishes = Wishes(weights, Bars(outputs=not asked.accept_outputs), conditions)
    try:
        past = LogReader(find(asked.log, asked.state_dir))
        try:
            spec = past.header.spec
            if slo is not None:
                spec = replace(spec, slo_ttft_ms=slo.ttft_ms, slo_tpot_ms=slo.tpot_ms)
            evidence = Evidence(spec, {one.tail for one in conditions if one.tail is not None})
            tally, gpus, telemetry = Tally(spec), GpuReadings(), Telemetry()

            def watch(record: PairRecord, window: int) -> None:
                evidence.add(record, window)
                tally.add(record, window)

            def watch_gpus(frame: Mapping[str, Any]) -> None:
                gpus.add(frame)
                telemetry.gpus(frame)

            trial = Trial(
                spec, past.header.epoch, watch=watch, watch_gpus=watch_gpus, watch_engines=telemetry.engine
            )
            replay(past, trial)
        finally:
            past.close()
        windows = trial.windows if spec.mode == "live" else None
        window_ns = None if windows is None else windows.window_ns
        recorded = Recorded(tally, gpus, prices, window_ns, has_slo(spec), spec.alpha)
        return decide(trial, evidence, wishes, recorded, telemetry)
    except LogError as error:
        raise UnreadableError(str(error)) from error
    except ConditionError as error:
        raise WrongError(str(error)) from error


def _prices(path: Path) -> Prices:
    """ConfigError names the file, the key and the remedy."""
    read = load_prices(path)
    arms = {arm.name: ArmPrice(arm.per_hour, arm.gpus) for arm in read.arms}
    return Prices(str(path), read.currency, read.gpus, arms)
