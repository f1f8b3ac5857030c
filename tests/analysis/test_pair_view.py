"""One pair as it is kept: where texts part, when tokens came, and no text."""

from itertools import pairwise
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from analysis.measure import measure
from analysis.packed import packed
from analysis.pair_view import render_pair, shown
from analysis.strip import SLOTS, drawn, gaps_of, strip_of
from tests.analysis.fleet import answer_frame, pair_frame

gaps = st.floats(0.05, 470_000)


@given(st.lists(gaps, max_size=SLOTS))
def test_a_strip_tells_every_gap_of_a_short_answer_within_a_few_per_cent(true: list[float]) -> None:
    strip = strip_of(true)
    assert len(strip) == len(true)
    assert gaps_of(strip) == pytest.approx(true, rel=0.033)


@given(st.lists(gaps, min_size=SLOTS + 1, max_size=400))
def test_of_a_long_answer_no_stall_is_lost(true: list[float]) -> None:
    found = gaps_of(strip_of(true))
    assert len(found) == SLOTS
    assert max(found) == pytest.approx(max(true), rel=0.033)


@given(st.lists(gaps, min_size=1, max_size=60))
def test_a_longer_gap_is_never_drawn_lower(true: list[float]) -> None:
    strip = strip_of(sorted(true))
    blocks = drawn(strip, min(gaps_of(strip)), max(gaps_of(strip)))
    assert len(blocks) == len(true) and all(a <= b for a, b in pairwise(blocks))


def test_gaps_that_cannot_be_are_drawn_as_the_least() -> None:
    assert strip_of([]) == b"" and gaps_of(strip_of([0.0])) == [0.05]
    assert drawn(strip_of([1.0, 1.0]), 1.0, 1.0) == "▁▁"


WORDS = ["the ", "sesame ", "opens ", "it"]
OTHER = ["the ", "sesame ", "closes"]


def test_where_two_answers_part_is_told_in_characters_and_drawn() -> None:
    record = measure(
        pair_frame([answer_frame("control", 0, 200, 20, WORDS), answer_frame("quick", 0, 100, 10, OTHER)])
    )
    assert record.partings == {"quick": ((11, 19, 17),)}
    text = render_pair(record)
    assert "the first difference is at character 11 (control 19 long, quick 17)" in text
    assert "sesame" not in text and b"sesame" not in packed(record)
    ours, theirs = (line for line in text.splitlines() if "^" in line)
    assert ours.index("^") == theirs.index("^") and ours.count("~") > theirs.count("~")
    assert len([line for line in text.splitlines() if "█" in line or "▁" in line]) == 3  # with the legend
    assert shown(record)["partings"] == {"quick": [{"at": 11, "control": 19, "other": 17}]}
    assert shown(record)["answers"][0]["gaps_ms"] == pytest.approx([20.0] * 3, rel=0.033)


def test_what_every_comparison_made_of_the_answers_is_told_without_their_text() -> None:
    record = measure(
        pair_frame([answer_frame("control", 0, 200, 20, WORDS), answer_frame("quick", 0, 100, 10, OTHER)])
    )
    rows = {
        line.rsplit(None, 1)[0].strip(): line.rsplit(None, 1)[1]
        for line in render_pair(record).splitlines()
        if line
    }
    scores = record.outputs["quick"]
    assert rows["against the control"] == "quick"
    assert rows["exact match"] == "0.000" and rows["refusal"] == "+0.000"
    assert rows["first divergence"] == f"{scores['first_divergence']:.3f}" == "0.421"
    assert "length ratio" not in rows  # its tokens are counted by events
    assert "+1.000" in render_pair(
        replace(record, outputs={"quick": {"loop": 1.0, "length_ratio": log(1.5)}})
    )
    text = render_pair(replace(record, outputs={"quick": {"length_ratio": log(1.5)}, "slow": {"loop": 1.0}}))
    assert "length ratio         +50.0 %  –" in text and "loop                 –        +1.000" in text
    assert "against the control" not in render_pair(replace(record, outputs={}))


def test_equal_answers_are_said_to_be_and_an_answer_without_text_parts_at_its_beginning() -> None:
    same = [answer_frame(arm, 0, 200, 20, WORDS) for arm in ("control", "quick")]
    assert "quick: the same 19 characters as the control" in render_pair(measure(pair_frame(same)))
    failed = answer_frame("quick", 0, 200, 20, [], status=500)
    record = measure(pair_frame([same[0], failed]))
    assert record.partings == {} and "status 500" in render_pair(record)
