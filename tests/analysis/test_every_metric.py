"""Laws of every metric."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics._choose import every_metric
from analysis.transcript import Choice, Content, ToolCall

METRICS = every_metric()
NAMES = sorted(METRICS)

CALLS = st.builds(
    ToolCall, st.sampled_from(["f", "g"]), st.sampled_from(['{"a":1}', '{"a": 1.0}', "{}", "{oops"])
)
TEXTS = st.text(alphabet="ab é🙂\n", max_size=12)
CHOICES = st.lists(
    st.builds(
        lambda text, reasoning, calls, reason: (text, reasoning, tuple(calls), reason),
        TEXTS,
        st.sampled_from(["", "hm"]),
        st.lists(CALLS, max_size=2),
        st.sampled_from([None, "stop", "length"]),
    ),
    max_size=2,
).map(lambda parts: tuple(Choice(index, *part) for index, part in enumerate(parts)))
CONTENTS = st.builds(
    lambda choices, tokens, source: Content(choices=choices, completion_tokens=tokens, token_source=source),
    CHOICES,
    st.sampled_from([None, 0, 1, 7, 300]),
    st.sampled_from(["usage", "chunks"]),
)


@pytest.mark.parametrize("name", NAMES)
@given(content=CONTENTS)
def test_an_answer_does_not_differ_from_itself(name: str, content: Content) -> None:
    assert METRICS[name].score(content, content) in (None, METRICS[name].same)


@pytest.mark.parametrize("name", NAMES)
@given(one=CONTENTS, other=CONTENTS)
def test_exchanging_the_answers_keeps_or_negates_the_score(name: str, one: Content, other: Content) -> None:
    metric = METRICS[name]
    there, back = metric.score(one, other), metric.score(other, one)
    if there is None or back is None:
        assert there is back
    else:
        assert back == pytest.approx(there if metric.symmetry == "even" else -there)


@pytest.mark.parametrize("name", [name for name in NAMES if METRICS[name].symmetry == "even"])
@given(one=CONTENTS, other=CONTENTS)
def test_a_share_lies_between_0_and_1(name: str, one: Content, other: Content) -> None:
    score = METRICS[name].score(one, other)
    assert score is None or 0.0 <= score <= 1.0


def said(*texts: str) -> Content:
    return Content(choices=tuple(Choice(index, text) for index, text in enumerate(texts)))


def test_first_divergence_is_the_share_after_the_first_difference() -> None:
    metric = METRICS["first_divergence"]
    assert metric.score(said("abcd"), said("abXd")) == 0.5
    assert metric.score(said("abcd"), said("ab")) == 0.5
    assert metric.score(said("abcd", "x"), said("abcd", "y")) == 0.5
    assert metric.score(said("a"), said("a", "b")) == 0.5  # a choice that is missing differs from its start


def test_edit_similarity_counts_letters() -> None:
    assert METRICS["edit_similarity"].score(said("abcd"), said("abd")) == 0.75


def test_tool_arguments_are_compared_as_json_values() -> None:
    def calling(arguments: str) -> Content:
        return Content(choices=(Choice(0, tool_calls=(ToolCall("f", arguments),)),))

    metric = METRICS["tool_calls"]
    assert metric.score(calling('{"a":1,"b":[2]}'), calling('{"b": [2.0], "a": 1}')) == 1.0
    assert metric.score(calling('{"a":1}'), calling('{"a":true}')) == 0.0
    assert metric.score(calling('{"a":1}'), calling('{"a":')) == 0.0
    assert metric.score(said("x"), said("y")) is None


def test_lengths_counted_in_different_ways_are_not_compared() -> None:
    usage = Content(completion_tokens=10, token_source="usage")
    events = Content(completion_tokens=10, token_source="chunks")
    assert METRICS["length_ratio"].score(usage, events) is None
