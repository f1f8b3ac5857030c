"""How does one pair look?  Its arms under one another: times, tokens, where texts part, timing strips."""

from collections.abc import Iterator, Sequence
from math import exp
from typing import Any

from analysis.index import By, Found
from analysis.measure import LATENCIES, AnswerMeasure, PairRecord
from analysis.metrics._choose import every_metric
from analysis.metrics._metric import Unit
from analysis.pair_text import beside
from analysis.report_lines import change, columns
from analysis.strip import drawn, gaps_of
from analysis.text_files import Said

_RULER = 48  # characters of the line that shows where two answers part


def render_pair(record: PairRecord, texts: Said | None = None) -> str:
    """One pair as plain text; with `texts` it says what its arms said where they part."""
    shown = [*record.answers, *([] if record.production is None else [record.production])]
    phase = record.phase if record.mark is None else f"{record.phase}, {record.mark}: not judged"
    lines = [
        f"pair {record.id}  {phase}  turn {record.turn}  at {record.at_ns / 1e9:.3f} s",
        "",
        *columns([_HEAD, *(_row(answer) for answer in shown)]),
        "",
        *_partings(record, texts or {}),
        *_scores(record),
        *_strips(shown),
    ]
    return "\n".join(lines) + "\n"


_HEAD = ["arm", "TTFT ms", "visible ms", "ITL ms", "TPOT ms", "E2E ms", "prompt", "cached", "tokens", "ended"]


def _row(answer: AnswerMeasure) -> list[str]:
    times = [answer.latency_ms(latency) for latency in LATENCIES]
    counts = [answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens]
    return [
        _name(answer),
        *("–" if time is None else f"{time:.1f}" for time in times),
        *("–" if count is None else str(count) for count in counts),
        answer.fault or answer.finish_reason or "–",
    ]


def _name(answer: AnswerMeasure) -> str:
    return answer.arm if answer.twin == 0 else f"{answer.arm}, again"


def _partings(record: PairRecord, texts: Said) -> Iterator[str]:
    calibrates = record.phase == "calibration"
    for arm, choices in record.partings.items():
        for number, (at, ours, theirs) in enumerate(choices):
            which = f", choice {number}" if len(choices) > 1 else ""
            name = "control, again" if arm == "control" else arm
            if at == ours == theirs:
                yield f"{name}{which}: the same {ours} characters as the control"
                continue
            yield (
                f"{name}{which}: the first difference is at character {at}"
                f" (control {ours} long, {name} {theirs})"
            )
            said, other = texts.get(("control", 0), ()), texts.get((arm, int(calibrates)), ())
            if number < min(len(said), len(other)):
                yield from beside(at, ("control", said[number]), (name, other[number]))
                continue
            longest = max(ours, theirs)
            for who, length in (("control", ours), (name, theirs)):
                yield f"  {_ruler(at, length, longest)} {who}"
    if record.partings:
        yield ""


def _scores(record: PairRecord) -> Iterator[str]:
    """What every comparison made of the answers: a row each, a column for each arm that has any."""
    metrics = every_metric()
    names = sorted({name for scores in record.outputs.values() for name in scores})
    if not names:
        return
    arms = ["control, again" if arm == "control" else arm for arm in record.outputs]
    rows = [["against the control", *arms]]
    for name in names:
        unit = metrics[name].unit if name in metrics else "share"
        said = (_score(scores.get(name), unit) for scores in record.outputs.values())
        rows.append([name.replace("_", " "), *said])
    yield from columns(rows)
    yield ""


def _score(score: float | None, unit: Unit) -> str:
    if score is None:
        return "–"
    return (
        change(exp(min(score, 99.0)))
        if unit == "ratio"
        else f"{score:+.3f}"
        if unit == "difference"
        else f"{score:.3f}"
    )


def _ruler(at: int, length: int, longest: int) -> str:
    """The answer as a line: = as long as both are the same, ^ where they part, ~ after it."""
    if length == 0:
        return "|".ljust(_RULER)
    end = max(1, round(length / longest * _RULER))
    part = min(round(at / longest * _RULER), end - 1) if at < length else end
    line = "=" * part + ("^" + "~" * (end - part - 1) if part < end else "")
    return line.ljust(_RULER)


def _strips(answers: Sequence[AnswerMeasure]) -> Iterator[str]:
    gaps = [gap for answer in answers for gap in gaps_of(answer.strip)]
    if not gaps:
        yield "no timing strips: no answer came in more than one piece"
        return
    least, most = min(gaps), max(gaps)
    yield (
        f"gaps between tokens, {least:.2f} ms (▁) to {most:.2f} ms (█), each answer from left to right;"
        " instants in ms from when it was sent:"
    )
    longest = max(len(answer.strip) for answer in answers)
    width = max(len(_name(answer)) for answer in answers)
    for answer in answers:
        strip = drawn(answer.strip, least, most)
        told = _instants(answer)
        yield f"  {_name(answer):<{width}}  {strip:<{longest if told else 0}}  {told}".rstrip()


def _instants(answer: AnswerMeasure) -> str:
    """What else came when: the answer's first event, what is no reasoning, and the counts of tokens."""
    named = (("begun", answer.role_ms), ("visible", answer.visible_ms), ("usage", answer.usage_ms))
    return ", ".join(f"{name} {at_ms:.1f}" for name, at_ms in named if at_ms is not None)


def render_list(found: Sequence[Found], by: By) -> str:
    """Pairs as a table, the largest figure first."""
    if not found:
        return "no judged pair has such a figure yet\n"
    rows = [["pair", "candidate", "differs", "TTFT", "TPOT", "E2E", ""]]
    for one in found:
        differs = "–" if one.differs is None else f"{one.differs:.1%}"
        ratios = [None if log is None else exp(log) for log in (one.ttft, one.tpot, one.e2e)]
        faults = [f"control {one.control_fault}"] if one.control_fault else []
        faults += [f"{one.candidate} {one.fault}"] if one.fault else []
        rows.append([one.id, one.candidate, differs, *(change(ratio) for ratio in ratios), "; ".join(faults)])
    what = {"differs": "the share of the longer answer after the first difference"}.get(by, f"{by.upper()}")
    return "\n".join([f"by {what}, the largest first", "", *columns(rows)]) + "\n"


def shown(record: PairRecord, texts: Said | None = None) -> dict[str, Any]:
    """One pair, JSON-able: every value by its name, strips as gaps in ms, texts where they were kept."""
    answers = [*record.answers, *([] if record.production is None else [record.production])]
    return {
        "id": record.id,
        "phase": record.phase,
        "mark": record.mark,
        "at_ns": record.at_ns,
        "turn": record.turn,
        "outputs": record.outputs,
        "partings": {
            arm: [dict(zip(("at", "control", "other"), one, strict=True)) for one in choices]
            for arm, choices in record.partings.items()
        },
        "answers": [
            {
                **{name: getattr(answer, name) for name in answer.__struct_fields__ if name != "strip"},
                "gaps_ms": [round(gap, 3) for gap in gaps_of(answer.strip)],
                "texts": None if texts is None else texts.get((answer.arm, answer.twin)),
            }
            for answer in answers
        ],
    }
