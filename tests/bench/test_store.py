"""What the benchmark of the store feeds: answers that part where it says, at paces of their own."""

from random import Random

import pytest

from analysis.measure import measured
from bench.store import TOKENS, frame_of, heard, parted, spec_of


@pytest.mark.parametrize("same", [1.0, 0.5, 0.0])
def test_live_pairs_are_timed_and_compared_from_texts_that_part_where_it_is_said(same: float) -> None:
    spec = spec_of(2)
    arms, shown = parted(same, spec.candidates, 1)
    frame = frame_of(10_000, spec, (arms, shown), {})
    record = measured(frame, frame["read"], frame["shown"])
    assert set(record.outputs) == set(spec.candidates)
    for scores in record.outputs.values():
        assert scores["first_divergence"] == pytest.approx(1.0 - same, abs=0.05)
        assert (scores["edit_similarity"] == 1.0) is (same == 1.0)
    assert record.production is not None
    for answer in (*record.answers, record.production):
        assert answer.completion_tokens == TOKENS and answer.ttft_ms and len(answer.strip) == 64
    assert len({answer.itl_ms for answer in record.answers}) == 3


def test_an_answer_is_heard_token_by_token() -> None:
    _, transcript = heard("control", [" one", " two"], Random(1))
    assert [event.tokens for event in transcript.content.token_events] == [1, 1]
