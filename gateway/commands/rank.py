"""What does `shadowlane rank` do?  Replays a log, decides, prints; its exit status is a gate."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from analysis.cost.presets import parse_slo
from analysis.decision.conditions import ConditionError, parse
from analysis.decision.decide import Wishes, decide
from analysis.decision.evidence import Evidence
from analysis.decision.gates import Bars
from analysis.decision.markdown import render_markdown
from analysis.decision.measures import WeightError, parse_weight
from analysis.decision.page import render_html
from analysis.decision.text import render_text
from analysis.ranking import Trial
from analysis.report import add_loads, read, spec_of, to_json
from analysis.resources import OtherArmsError
from analysis.store import LogError, LogReader
from gateway.commands.report import UnreadableError, WrongError, find, must_not_read
from gateway.processes.prices import priced
from wire.plain import plain

HOLDS: Final = 0
MET: Final = 3
UNKNOWN: Final = 4


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
    also: Sequence[str] = ()


def rank(asked: Asked, out: TextIO | None = None) -> int:
    """Print the decision; the exit status: 0, 3 where a condition is met, 4 where none is and one is unknown.

    Raises UnreadableError for the log or the page, WrongError for a flag.
    """
    found = _decided(asked)
    forms: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
        "text": lambda found: plain(render_text(found)),
        "json": lambda found: to_json(found).decode() + "\n",
        "markdown": lambda found: plain(render_markdown(found)),
    }
    stream = sys.stdout if out is None else out
    stream.write(forms[asked.form](found))
    if asked.html is not None:
        try:
            Path(asked.html).write_text(plain(render_html(found)), encoding="utf-8")
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
        prices = None if asked.prices is None else priced(Path(asked.prices))
    except ValueError as error:
        raise WrongError(str(error)) from error
    wishes = Wishes(weights, Bars(outputs=not asked.accept_outputs), conditions)
    try:
        log = find(asked.log, asked.state_dir)
        loads = [find(one, asked.state_dir) for one in asked.also]
        must_not_read(asked.html, [log, *loads, *([] if asked.prices is None else [Path(asked.prices)])])
        past = LogReader(log)
        try:
            spec = spec_of(past, slo)
            evidence = Evidence(spec, {one.tail for one in conditions if one.tail is not None})
            trial = read(past, Trial(spec, past.header.epoch, watch=evidence.add, prices=prices))
        finally:
            past.close()
        add_loads(trial, log, loads, slo)
        return decide(trial, evidence, wishes)
    except LogError as error:
        raise UnreadableError(str(error)) from error
    except (ConditionError, WeightError, OtherArmsError) as error:
        raise WrongError(str(error)) from error
