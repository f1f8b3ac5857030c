"""What is kept of a pair, and what is not."""

from math import inf
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measure import AnswerMeasure, measure
from analysis.packed import packed, unpacked
from tests.analysis.fleet import MS, answer_frame, pair_frame

WORDS = ["alpha ", "beta ", "gamma ", "delta "]


def only(answer: dict[str, Any]) -> AnswerMeasure:
    return measure(pair_frame([answer])).answers[0]


def test_latencies_tokens_and_reason_of_a_stream() -> None:
    found = only(answer_frame("control", 0, 200, 20, WORDS))
    assert (found.ttft_ms, found.itl_ms, found.tpot_ms, found.e2e_ms) == (200.0, 20.0, 20.0, 260.0)
    assert (found.prompt_tokens, found.completion_tokens, found.token_source) == (20, 4, "usage")
    assert (found.fault, found.finish_reason, found.streamed) == (None, "stop", True)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"ending": "refused", "status": None, "head_ns": None, "reads": []}, "refused"),
        ({"ending": "timeout"}, "timeout"),
        ({"ending": "TIMEOUT"}, "timeout"),
        ({"ending": "cancelled"}, "cancelled"),
        ({"ending": "malformed"}, "malformed"),
        ({"ending": "cut"}, "truncated"),
        ({"status": 503, "reads": [[MS, b'{"error":{"message":"full"}}']]}, "status 503"),
        ({"reads": [[MS, b'data: {"error":{"message":"full"}}\n\ndata: [DONE]\n\n']]}, "error event"),
        ({"reads": [[MS, b'{"error":{"message":"full"}}']]}, "error body"),
        ({"reads": [[MS, b"{oops"]]}, "error body"),
        ({"reads": [[MS, b"<html>"]]}, "truncated"),
        ({"reads": []}, "truncated"),
        ({"reads": [[MS, b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n']]}, "no token"),
    ],
)
def test_what_went_wrong_is_one_of_a_few_phrases(change: dict[str, Any], fault: str) -> None:
    assert only(answer_frame("control", 0, 200, 20, WORDS, **change)).fault == fault


def test_an_unread_protocol_still_has_an_end() -> None:
    answer = answer_frame("control", 0, 200, 20, WORDS, reads=[[5 * MS, b'{"data":'], [9 * MS, b"[]}"]])
    found = measure(pair_frame([answer], path="/v1/embeddings")).answers[0]
    assert (found.fault, found.e2e_ms, found.ttft_ms) == (None, 9.0, None)


def test_candidates_are_compared_with_the_control_and_in_calibration_it_with_itself() -> None:
    control = answer_frame("control", 0, 200, 20, WORDS)
    other = answer_frame("quick", 0, 150, 15, [*WORDS[:2], "omega "])
    live = measure(pair_frame([control, other]))
    assert set(live.outputs) == {"quick"}
    assert live.outputs["quick"]["exact_match"] == 0.0
    assert 0.0 < live.outputs["quick"]["first_divergence"] < 1.0
    again = answer_frame("control", 0, 200, 20, WORDS, twin=1)
    twins = measure(pair_frame([control, again, other], phase="calibration"))
    assert set(twins.outputs) == {"control"}
    assert twins.outputs["control"]["exact_match"] == 1.0


def test_a_failed_answer_is_not_compared() -> None:
    control = answer_frame("control", 0, 200, 20, WORDS)
    failed = answer_frame("quick", 0, 150, 15, WORDS, ending="cut")
    assert measure(pair_frame([control, failed])).outputs == {}
    assert measure(pair_frame([{**control, "ending": "cut"}, {**failed, "ending": "complete"}])).outputs == {}


SECRET = "mellon"


def test_no_text_survives() -> None:
    spoken = answer_frame("control", 0, 200, 20, [SECRET, " friend"])
    scolded = answer_frame(
        "quick", 0, 200, 20, [], reads=[[MS, b'{"error":{"message":"' + SECRET.encode() + b'"}}']]
    )
    odd = answer_frame("third", 0, 200, 20, ["x"])
    odd["reads"] = [[at, data.replace(b'"stop"', b'"mellon"')] for at, data in odd["reads"]]
    record = measure(pair_frame([spoken, scolded, odd], production=spoken))
    assert SECRET.encode() not in packed(record)
    assert record.answers[2].finish_reason == "other"


def test_a_record_survives_msgpack_exactly() -> None:
    frame = pair_frame(
        [answer_frame("control", 7, 200.123, 20.7, WORDS), answer_frame("quick", 9, 1.1, 2.2, WORDS[:3])],
        production=answer_frame("production", 3, 100, 10, WORDS),
    )
    record = measure(frame)
    assert unpacked(packed(record)) == record
    assert measure(msgpack.unpackb(msgpack.packb(frame))) == record


@given(value=st.floats(min_value=1e-9, max_value=1e12), at_ns=st.integers(0, 2**62))
def test_numbers_survive_msgpack_exactly(value: float, at_ns: int) -> None:
    record = measure(pair_frame([answer_frame("control", 0, 200, 20, WORDS)], at_ns=at_ns))
    record.outputs["quick"] = {"length_ratio": value}
    back = unpacked(packed(record))
    assert back == record
    assert back.outputs["quick"]["length_ratio"] < inf


@given(garbage=st.lists(st.binary(max_size=30), max_size=4), status=st.sampled_from([None, 200, 404]))
def test_what_an_engine_sends_never_raises(garbage: list[bytes], status: int | None) -> None:
    reads = [[at, data] for at, data in enumerate(garbage)]
    assert only(answer_frame("control", 0, 1, 1, WORDS, reads=reads, status=status)).fault is not None
