"""When did somebody see text?  Hidden reasoning is in the TTFT, and not in what is visible."""

import json
from collections.abc import Callable
from math import inf, isnan
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from analysis.calibration import Calibrating, Calibration
from analysis.columns import Columns
from analysis.export import columns
from analysis.measure import AnswerMeasure, PairRecord, measure
from analysis.packed import NAMES, reader_of
from analysis.pair_view import render_pair
from analysis.ranking import Trial
from analysis.rates import Rates
from analysis.report import render_text
from analysis.report_page import render_html
from analysis.series import contrasts
from tests.analysis.fleet import MS, answer_frame, pair_frame
from tests.analysis.trials import SPEC, altered, labels, named, ranked, records

LATER = ("visible_ms", "role_ms", "usage_ms")


def stream(arm: str, thoughts: int, words: int, gap_ms: int = 10) -> dict[str, Any]:
    """A role at 1 ms, reasoning from 100 ms on, then text, how it ended and the counts."""
    deltas = [{"reasoning_content": "hm"}] * thoughts + [{"content": "so"}] * words
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": thoughts + words}})
    role: dict[str, Any] = {
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    }
    timed = [(1, role), *((100 + n * gap_ms, event) for n, event in enumerate(events))]
    reads: list[list[Any]] = [
        [at_ms * MS, b"data: %s\n\n" % json.dumps(event).encode()] for at_ms, event in timed
    ]
    reads[-1][1] += b"data: [DONE]\n\n"
    return {**answer_frame(arm, 0, 100.0, 10.0, []), "reads": reads, "end_ns": reads[-1][0]}


def test_reasoning_counts_as_the_first_token_and_not_as_visible_text() -> None:
    answer = measure(pair_frame([stream("control", thoughts=30, words=5)])).answers[0]
    assert (answer.role_ms, answer.ttft_ms, answer.visible_ms, answer.usage_ms) == (1.0, 100.0, 400.0, 460.0)


def test_without_reasoning_the_first_token_is_visible() -> None:
    answer = measure(pair_frame([stream("control", thoughts=0, words=5)])).answers[0]
    assert answer.visible_ms == answer.ttft_ms == 100.0


def said(control: dict[str, Any], other: dict[str, Any]) -> tuple[float, float, float | None]:
    """The contrasts of what is visible and of the TTFT, and whose answer is slow to be visible."""
    both = Columns.of([measure(pair_frame([control, other]))])
    sides = both.side("control"), both.side("other")
    slow = Rates("other", SPEC, {"visible": 5_000.0}).add(both).get("slow_visible other")
    return (
        float(contrasts(*sides, "visible")[0]),
        float(contrasts(*sides, "ttft")[0]),
        None if slow is None else float(slow[0]),
    )


def test_an_answer_that_reasons_and_never_comes_to_text_takes_the_worst_rank_of_what_is_visible() -> None:
    endless, short = stream("other", thoughts=40, words=0), stream("control", thoughts=3, words=5)
    assert said(short, endless) == (inf, 0.0, 1.0)
    turned = said({**endless, "arm": "control"}, {**short, "arm": "other"})
    assert turned == (-inf, 0.0, -1.0)


def test_where_neither_comes_to_text_nothing_is_said_of_it() -> None:
    visible, ttft, slow = said(stream("control", 40, 0), stream("other", 20, 0))
    assert isnan(visible) and ttft == 0.0 and slow == 0.0


def reasoning(record: PairRecord) -> PairRecord:
    """Everybody thinks for 300 ms before text, `slow` for 600; first tokens come alike."""
    for arm, more_ms in (("control", 300.0), ("same", 300.0), ("quick", 300.0), ("slow", 600.0)):
        answers = [
            replace(a, ttft_ms=200.0, visible_ms=(a.ttft_ms or 0.0) + more_ms) if a.arm == arm else a
            for a in record.answers
        ]
        record = replace(record, answers=tuple(answers))
    return record


def test_who_reasons_longer_is_slower_in_what_is_visible_although_first_tokens_come_alike() -> None:
    ranking = ranked([reasoning(record) for record in records(900)])
    assert labels(ranking, "visible")["slow"] == "SLOWER"
    assert labels(ranking, "ttft")["slow"] == "EQUIVALENT"
    assert named(ranking, "slow")["visible_ms"]["p50"] > named(ranking, "same")["visible_ms"]["p50"] + 200
    text, page = render_text(ranking), render_html(ranking)
    assert "VISIBLE" in text and "Visible text vs control" in page


def test_where_nobody_reasons_it_is_told_once() -> None:
    ranking = ranked(records(300))
    assert named(ranking, "quick")["verdicts"]["visible"] == named(ranking, "quick")["verdicts"]["ttft"]
    assert "VISIBLE" not in render_text(ranking) and "isible text" not in render_html(ranking)


def older(record: PairRecord) -> list[Any]:
    """As it was written before these instants were."""
    values: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(record))
    kept = len(NAMES["answer"]) - len(LATER)
    places = {name: place for place, name in enumerate(NAMES["pair"])}
    values[places["answers"]] = [answer[:kept] for answer in values[places["answers"]]]
    if values[places["production"]] is not None:
        values[places["production"]] = values[places["production"]][:kept]
    return values


def test_a_log_of_before_is_read_and_says_nothing_of_what_is_visible() -> None:
    names = [name for name in NAMES["answer"] if name not in LATER]
    assert names == list(NAMES["answer"][: -len(LATER)])  # a new value comes last
    read = reader_of({**NAMES, "answer": names})
    trial = Trial(SPEC)
    for record in records(600):
        trial.add(read(msgspec.msgpack.encode(older(record))))
    ranking = trial.ranking()
    assert named(ranking, "quick")["verdicts"]["visible"]["units"] == 0
    assert named(ranking, "quick")["percentiles"]["visible"]["pairs"] == 0
    assert labels(ranking)["quick"] == "FASTER" and "VISIBLE" not in render_text(ranking)
    bare = ranked([without(record) for record in records(600)])
    assert bare == ranking


def without(record: PairRecord) -> PairRecord:
    def bare(answer: AnswerMeasure) -> AnswerMeasure:
        return replace(answer, **dict.fromkeys(LATER))

    shown = None if record.production is None else bare(record.production)
    return replace(record, answers=tuple(map(bare, record.answers)), production=shown)


def test_a_pair_is_shown_with_its_instants_and_a_table_has_them() -> None:
    shown = render_pair(measure(pair_frame([stream("control", 30, 5), stream("other", 0, 5)])))
    assert "begun 1.0, visible 400.0, usage 460.0" in shown and "begun 1.0, visible 100.0" in shown
    assert set(LATER) <= set(columns())


@pytest.mark.parametrize("arm", ["control", "quick"])
def test_a_failed_answer_that_had_said_something_visible_takes_the_worst_rank_all_the_same(arm: str) -> None:
    record = altered(records(1)[-1], arm, fault="truncated")
    both = Columns.of([record])
    sides = both.side("control"), both.side("quick")
    assert contrasts(*sides, "visible")[0] == (inf if arm == "quick" else -inf)


def calibrated(thinks_forever: Callable[[int, int], bool]) -> Calibration:
    """Of a control that answers twice, each time visible after 100 to 199 ms, or never: by pair and twin."""
    found = Calibrating(SPEC)
    for n, record in enumerate(records(0)):
        answers = tuple(
            replace(
                answer, ttft_ms=50.0, visible_ms=None if thinks_forever(n, answer.twin) else 100.0 + n % 100
            )
            for answer in record.answers
        )
        found.add(replace(record, answers=answers))
    return found.finish()


def test_what_is_slow_to_be_visible_is_of_all_answers_and_those_that_never_come_to_text_took_forever() -> (
    None
):
    none = calibrated(lambda n, twin: False).slow_ms["visible"]
    some = calibrated(lambda n, twin: n % 33 == 0).slow_ms["visible"]
    assert none == pytest.approx(194.0, abs=1.0)
    assert some == pytest.approx(197.0, abs=1.0)


def test_where_more_than_one_in_twenty_never_comes_to_text_nothing_says_what_is_slow() -> None:
    found = calibrated(lambda n, twin: n % 10 == 0)
    assert "visible" not in found.slow_ms and "ttft" in found.slow_ms


def test_a_control_of_which_one_twin_never_comes_to_text_differs_from_itself_in_what_is_visible_alone() -> (
    None
):
    found = calibrated(lambda n, twin: twin == 1 and n % 2 == 0).aa
    assert found["visible"].lower > 0.0
    assert found["ttft"].lower <= 0.0 <= found["ttft"].upper
