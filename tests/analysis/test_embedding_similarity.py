"""How alike two answers are in meaning: by the vectors that were got for their texts, choice by choice."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics.embedding_similarity import Params, build, texts
from analysis.transcript import Choice, Content

NUMBERS = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=3, max_size=3)
ONE, OTHER = "it is warm", "it is hot"


def content(*said: str) -> Content:
    return Content(choices=tuple(Choice(index, text) for index, text in enumerate(said)))


@given(NUMBERS, NUMBERS)
def test_it_is_between_none_and_all_and_the_same_both_ways(a: list[float], b: list[float]) -> None:
    metric = build(Params({ONE: a, OTHER: b}))
    score = metric.score(content(ONE), content(OTHER))
    assert score is not None and 0.0 <= score <= 1.0
    assert score == pytest.approx(metric.score(content(OTHER), content(ONE)))


def test_it_is_the_cosine_and_none_where_the_directions_are_opposed() -> None:
    vectors = {"a": [1.0, 0.0], "b": [1.0, 1.0], "c": [-2.0, 0.0], "d": [0.0, 0.0]}
    metric = build(Params(vectors))
    assert metric.score(content("a"), content("b")) == pytest.approx(1 / sqrt(2))
    assert metric.score(content("a"), content("c")) == 0.0
    assert metric.score(content("a"), content("d")) == 0.0  # it has no direction
    assert metric.score(content("a", "a"), content("a", "b")) == pytest.approx((1 + 1 / sqrt(2)) / 2)


def test_equal_texts_need_no_vector_and_a_missing_one_is_no_score() -> None:
    metric = build(Params({"a": [1.0]}))
    assert metric.score(content("new"), content("new")) == 1.0
    assert metric.score(content("a"), content("new")) is None
    assert metric.score(content("a"), content("")) == 0.0
    assert metric.score(content("a", "a"), content("a")) == 0.5  # a choice that is missing says nothing


def test_vectors_are_asked_for_only_where_they_are_needed_and_of_the_beginning() -> None:
    assert texts(content("a", "same", "b"), content("c", "same", ""), 10) == {"a", "c"}
    assert texts(content("abcdef"), content("abcxyz"), 4) == {"abcd", "abcx"}
    assert texts(content("abcdef"), content("abcxyz"), 3) == set()
    assert build(Params(cap_chars=3)).score(content("abcdef"), content("abcxyz")) == 1.0
