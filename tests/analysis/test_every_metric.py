"""Laws of every metric: to make two answers takes longer than to compare them, so all compare the same."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.asked import read_asked
from analysis.metrics._choose import every_metric
from analysis.metrics._prefix import compared_tokens
from analysis.transcript import Choice, Content, TokenLogprob, ToolCall

METRICS = every_metric()

CALLS = st.builds(
    ToolCall, st.sampled_from(["f", "g"]), st.sampled_from(['{"a":1}', '{"a": 1.0}', "{}", "{oops"])
)
TEXTS = st.one_of(
    st.text(alphabet="ab é🙂\n", max_size=12),
    st.sampled_from(
        [
            '{"a":1,"b":[2,{"c":null}]}',
            '{"a": 1.0, "b": []}',
            '{"a":',
            "[1,2]",
            "```json\n{}\n```",
            "It is 1,024.",
            "42",
            "I'm sorry, but no.",
            "abc" * 90,
            "\ufffd\ufffd\ufffd\x00x",
            "Привет",
            "你好, ok",
        ]
    ),
)
LOGPROBS = st.lists(
    st.builds(
        lambda token, logprob, others: TokenLogprob(
            token, logprob, tuple({**dict(others), token: logprob}.items()) if others else ()
        ),
        st.sampled_from("abc"),
        st.floats(-9.0, -0.01),
        st.lists(st.tuples(st.sampled_from("abcd"), st.floats(-9.0, -1.4)), max_size=3),
    ),
    max_size=4,
)
SCHEMA = b'{"type":"json_schema","json_schema":{"schema":{"type":"object","required":["a"]}}}'
TOOLS = b'[{"type":"function","function":{"name":"f","parameters":{"type":"object","required":["a"]}}}]'
ASKED = st.sampled_from([None, read_asked({"response_format": SCHEMA, "tools": TOOLS})])
CHOICES = st.lists(
    st.builds(
        lambda text, reasoning, calls, reason, tokens, logprobs: (
            (text, reasoning, tuple(calls), reason, tokens, None, tuple(logprobs) or None)
        ),
        TEXTS,
        st.sampled_from(["", "hm"]),
        st.lists(CALLS, max_size=2),
        st.sampled_from([None, "stop", "length", "content_filter"]),
        st.sampled_from([None, 1, 7]),
        LOGPROBS,
    ),
    max_size=2,
).map(lambda parts: tuple(Choice(index, *part) for index, part in enumerate(parts)))
CONTENTS = st.builds(
    lambda choices, tokens, source, asked: Content(
        choices=choices, completion_tokens=tokens, token_source=source, asked=asked
    ),
    CHOICES,
    st.sampled_from([None, 0, 1, 7, 300]),
    st.sampled_from(["usage", "chunks"]),
    ASKED,
)


@settings(max_examples=300)
@given(content=CONTENTS)
def test_an_answer_does_not_differ_from_itself(content: Content) -> None:
    for name, metric in METRICS.items():
        assert metric.score(content, content) in (None, metric.same), name


@settings(max_examples=300)
@given(one=CONTENTS, other=CONTENTS)
def test_exchanging_the_answers_keeps_or_negates_the_score(one: Content, other: Content) -> None:
    other = replace(other, asked=one.asked)  # two answers to one request
    for name, metric in METRICS.items():
        if metric.symmetry == "none":
            continue
        there, back = metric.score(one, other), metric.score(other, one)
        if there is None or back is None:
            assert there is back, name
        else:
            assert back == pytest.approx(there if metric.symmetry == "even" else -there), name


@settings(max_examples=200)
@given(one=CONTENTS, other=CONTENTS)
def test_choices_are_compared_by_their_index_in_whichever_order_they_came(
    one: Content, other: Content
) -> None:
    other = replace(other, asked=one.asked)
    turned = replace(other, choices=other.choices[::-1])
    for name, metric in METRICS.items():
        assert metric.score(one, turned) == metric.score(one, other), name


RANGES = {"share": (0.0, 1.0), "difference": (-1.0, 1.0), "nats": (0.0, inf), "ratio": (-inf, inf)}


@settings(max_examples=300)
@given(one=CONTENTS, other=CONTENTS)
def test_a_score_lies_where_its_unit_says(one: Content, other: Content) -> None:
    for name, metric in METRICS.items():
        score, (low, high) = metric.score(one, other), RANGES[metric.unit]
        assert score is None or low - 1e-12 <= score <= high, name


@given(one=CONTENTS)
def test_what_two_answers_share_is_at_least_one_token_and_at_most_one_more_than_there_are(
    one: Content,
) -> None:
    for other in (one, replace(one, choices=tuple(replace(c, text=c.text + "x") for c in one.choices))):
        n = compared_tokens(one, other)
        counts = [choice.tokens for choice in one.choices if choice.tokens]
        assert n is None or (counts and 1.0 <= n <= max(counts) + 1)


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
