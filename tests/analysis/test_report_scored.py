"""What reports say of tokens that all arms scored: values, the floor, and what is beyond it."""

from analysis.report_scored import scored_lines, scored_section
from tests.analysis.shell.rankings import scored

ASKED = {"scored": scored()}


def test_each_distance_is_told_with_the_floor_and_what_is_beyond_it() -> None:
    head, titles, *rows = scored_lines(ASKED)
    assert head == "distributions over the control's tokens (scored): 300 of 300 pairs, 30 windows"
    assert titles.split() == ["candidate", "metric", "value", "floor", "excess", "interval"]
    said = [" ".join(row.split()) for row in rows]
    assert said == [
        "fp8-kv KL (k3) 0.0123 nats 0.0004 nats +0.0119 nats +0.0098 nats … +0.0140 nats",
        "fp8-kv KL (top) 0.0101 nats 0.0003 nats +0.0098 nats +0.0087 nats … +0.0109 nats",
        "fp8-kv perplexity +2.1 % +0.1 % +2.0 % +1.6 % … +2.4 %",
        "fp8-kv flips 1.31% 0.21% +1.10% +0.90% … +1.30%",
    ]
    page = scored_section(ASKED)
    for row in rows:
        assert all(part in page for part in row.split())


def test_what_is_not_known_yet_is_left_out_and_a_phase_that_was_not_asked_for_is_not_told() -> None:
    begun = {"scored": {**scored(), "pairs": 3, "windows": 0, "outputs": {"fp8-kv": {}}}}
    assert scored_lines(begun) == [
        "distributions over the control's tokens (scored): 3 of 300 pairs, 0 windows"
    ]
    assert scored_lines({"scored": None}) == scored_lines({}) == [] and scored_section({}) == ""


def test_a_phase_that_could_not_be_says_why() -> None:
    why = "c1 does not score tokens it is given <b>"
    ranking = {"scored": {**scored(), "why": why}}
    assert scored_lines(ranking) == [f"tokens were not scored: {why}"]
    assert "&lt;b&gt;" in scored_section(ranking) and "<b>" not in scored_section(ranking)
