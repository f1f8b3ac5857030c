"""What the comparisons of outputs say of answers as they are met: JSON, tools, numbers, refusals, noise."""

import json
from math import exp, isclose, isfinite, log
from random import Random
from typing import Any

import pytest

from analysis.asked import read_asked
from analysis.columns import Columns
from analysis.diffs.figures import DiffFigures
from analysis.measure import measure
from analysis.metrics._choose import every_metric
from analysis.outputs import output_shown
from analysis.stats.windows import Windows
from analysis.transcript import Choice, Content, TokenLogprob, ToolCall
from analysis.verdict import Interval, Spread
from tests.analysis.fleet import answer_frame, pair_frame

METRICS = every_metric()
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}


def asking(schema: Any = SCHEMA, tools: Any = None) -> dict[str, bytes]:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    fields = {"response_format": json.dumps(form).encode()}
    return fields if tools is None else {"tools": json.dumps(tools).encode()}


def said(*texts: str, asked: dict[str, bytes] | None = None) -> Content:
    choices = tuple(Choice(index, text) for index, text in enumerate(texts))
    return Content(choices=choices, asked=None if asked is None else read_asked(asked))


def score(metric: str, control: str, candidate: str, asked: dict[str, bytes] | None = None) -> float | None:
    return METRICS[metric].score(said(control, asked=asked), said(candidate, asked=asked))


def test_fields_are_compared_by_path_and_value_and_not_by_spelling() -> None:
    assert score("structured_fields", '{"a":1,"b":[true,"x"]}', '{ "b": [true, "x"], "a": 1.0 }') == 1.0
    assert score("structured_fields", '{"a":1,"b":2}', '{"a":1,"b":3}') == 0.5
    assert score("structured_fields", '{"a":1}', '```json\n{"a":1}\n```') == 1.0
    assert score("structured_fields", '{"a":1}', '{"a":1') == 0.0
    assert score("structured_fields", '{"a":1}', '{"a":true}') == 0.0
    assert score("structured_fields", "prose", "other prose") is None


def test_a_schema_that_was_asked_for_is_kept_or_broken_and_who_does_it_is_told_by_the_sign() -> None:
    good, bad, none = '{"name":"Ada","age":36}', '{"name":"Ada","age":-1}', "Ada, 36"
    for broken in (bad, none):
        assert score("schema_valid", good, broken, asking()) == -1.0
        assert score("schema_valid", broken, good, asking()) == 1.0
    assert score("schema_valid", bad, none, asking()) == 0.0
    assert score("schema_valid", good, bad) is None
    assert score("json_valid", good, none, asking()) == -1.0
    assert score("json_valid", good, bad, asking()) == 0.0


@pytest.mark.parametrize(
    "fields",
    [
        {"structured_outputs": json.dumps({"json": SCHEMA}).encode()},
        {"guided_json": json.dumps(SCHEMA).encode()},
        {"guided_json": json.dumps(json.dumps(SCHEMA)).encode()},
        {"response_format": json.dumps({"type": "json_object", "schema": SCHEMA}).encode()},
    ],
)
def test_every_engines_way_to_ask_for_a_schema_is_understood(fields: dict[str, bytes]) -> None:
    assert score("schema_valid", '{"name":"Ada"}', "{}", fields) == -1.0


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/never-fetched.json"},
        {"$ref": "#/nowhere"},
        {"type": "string", "pattern": "(a+)+$"},
        {"type": 5},
        True,
        [],
    ],
)
def test_a_schema_that_cannot_be_followed_is_neither_kept_nor_broken(schema: Any) -> None:
    text = json.dumps("a" * 40 + "!")
    assert score("schema_valid", text, text, asking(schema)) in (None, 0.0)


def test_a_schema_without_end_is_not_followed() -> None:
    endless = {"$ref": "#"}
    assert score("schema_valid", "{}", "[]", asking(endless)) is None
    deep = "[" * 500 + "]" * 500
    assert score("schema_valid", "{}", deep, asking()) is None


TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]


def calling(*calls: tuple[str, str]) -> Content:
    choice = Choice(0, tool_calls=tuple(ToolCall(*call) for call in calls))
    return Content(choices=(choice,), asked=read_asked(asking(tools=TOOLS)))


def test_calls_are_valid_that_name_a_given_tool_with_the_arguments_it_takes() -> None:
    metric, good = METRICS["tools_valid"], calling(("weather", '{"name":"Ada"}'))
    for broken in (("wether", '{"name":"Ada"}'), ("weather", "{}"), ("weather", '{"name":')):
        assert metric.score(good, calling(broken)) == -1.0
        assert metric.score(calling(broken), good) == 1.0
    assert metric.score(good, calling()) is None


@pytest.mark.parametrize(
    ("control", "candidate", "expected"),
    [
        ("So it is 1,024.", "2^10 = 1024", 1.0),
        ("#### 18", "The answer is 18.00", 1.0),
        ("18", "19", 0.0),
        ("18", "eighteen", 0.0),
        ("none", "either", None),
    ],
)
def test_the_last_number_is_the_answer(control: str, candidate: str, expected: float | None) -> None:
    assert score("final_number", control, candidate) == expected


def test_what_only_the_candidate_does_counts_against_it_and_the_reverse_for_it() -> None:
    fine = "The capital of France is Paris, on the river Seine. " + " ".join(str(n) for n in range(99))
    bad = {
        "refusal": "I\u2019m sorry, but I can\u2019t help with that.",
        "loop": fine + " and so on and so forth" * 12,
        "garbage": fine + "\ufffd\x02\ue000" * 9,
    }
    for metric, text in bad.items():
        assert score(metric, fine, text) == 1.0, metric
        assert score(metric, text, fine) == -1.0, metric
        assert score(metric, fine, fine + " Lyon is next.") == 0.0, metric
    assert score("loop", fine, "| a | b |\n|---|---|\n" + "-" * 80) == 0.0
    assert score("garbage", fine, fine + "\ufffd") == 0.0


def test_another_script_is_another_language() -> None:
    assert score("language", "Hello there", "Good day to you") == 1.0
    assert score("language", "Hello there", "你好世界") == 0.0
    mixed = score("language", "Hello there", "Hello there 你好世界你好世界你好")
    assert mixed is not None and 0.4 < mixed < 0.6


def tokens(*places: dict[str, float], chose: str) -> Content:
    logprobs = tuple(
        TokenLogprob(token, log(place[token]), tuple((t, log(p)) for t, p in place.items()))
        for token, place in zip(chose, places, strict=True)
    )
    return Content(choices=(Choice(0, chose, logprobs=logprobs),))


def test_kl_is_what_the_distributions_say_and_stops_where_the_contexts_part() -> None:
    p, q, far = {"a": 0.6, "b": 0.4}, {"a": 0.5, "b": 0.5}, {"a": 0.01, "b": 0.99}
    ours, theirs = tokens(p, p, p, chose="aba"), tokens(q, q, far, chose="aab")
    kl = (0.1 * log(0.6 / 0.5) + 0.1 * log(0.5 / 0.4)) / 2  # (p - q) log(p / q), halved
    found = METRICS["kl_top"].score(ours, theirs)  # of two places: the third has another context
    assert found is not None and isclose(found, kl, rel_tol=1e-6)
    k3 = METRICS["kl_k3"].score(ours, theirs)
    r = 0.5 / 0.6
    assert k3 is not None and isclose(k3, r - 1 - log(r))
    gap = METRICS["logprob_gap"].score(ours, theirs)
    assert gap is not None and isclose(exp(gap), 0.6 / 0.5)


def test_k3_over_the_controls_own_draws_is_the_true_divergence() -> None:
    rng, names = Random(5), "abcd"
    p, q = [0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.1, 0.3]
    true = sum(a * log(a / b) for a, b in zip(p, q, strict=True))
    drawn = rng.choices(range(4), p, k=40_000)

    def drawn_by(of: list[float]) -> Content:
        logprobs = tuple(TokenLogprob(names[n], log(of[n])) for n in drawn)
        return Content(choices=(Choice(0, "x", logprobs=logprobs),))

    found = METRICS["kl_k3"].score(drawn_by(p), drawn_by(q))
    assert found is not None and isclose(found, true, rel_tol=0.05)


@pytest.mark.parametrize("said", [0.5, 1000.0, 1e308])
def test_no_metric_raises_for_a_probability_above_1(said: float) -> None:
    ours = tokens({"a": 0.6, "b": 0.4}, chose="a")
    theirs = Content(choices=(Choice(0, "a", logprobs=(TokenLogprob("a", said, (("a", said),)),)),))
    for metric in METRICS.values():
        for one, other in ((ours, theirs), (theirs, ours)):
            found = metric.score(one, other)
            assert found is None or isfinite(found)


def test_a_flip_between_tokens_that_were_all_but_equal_is_none_when_sure() -> None:
    tie, tied = {"a": 0.5, "b": 0.49}, {"a": 0.49, "b": 0.5}
    sure, other = {"a": 0.9, "b": 0.1}, {"a": 0.1, "b": 0.9}
    for ours, theirs, flips, when_sure in (
        (tie, tied, 1.0, 0.0),
        (sure, other, 1.0, 1.0),
        (sure, sure, 0, 0),
    ):
        a, b = tokens(ours, chose="a"), tokens(theirs, chose="a")
        assert METRICS["flips"].score(a, b) == flips
        assert METRICS["flips_when_sure"].score(a, b) == when_sure


def record(words: list[str], others: list[str], **more: Any) -> Any:
    ours = answer_frame("control", 0, 10, 10, words)
    return measure(pair_frame([ours, answer_frame("quick", 0, 10, 10, others)], **more))


def test_the_hazard_is_the_differences_over_the_tokens_that_could_have_differed() -> None:
    figures, floor = DiffFigures("quick"), DiffFigures("control", 1)
    words = ["aa ", "bb ", "cc ", "dd "]
    same, other = record(words, words), record(words, [*words[:2], "xx ", "dd "])  # the third differs
    windows = Windows(1, 1)
    values = figures.add(Columns.of([same, other]))
    for key in range(2):  # the two pairs in each of two windows, five times
        for _ in range(5):
            for row in range(2):
                windows.add(key, {name: column[row] for name, column in values.items() if column[row] >= 0})
    windows.finish()
    shown = figures.show(floor, {}, windows, 0.05, "live")
    hazard = shown["hazard"]
    assert (hazard["tokens"], hazard["value"]) == (7, pytest.approx(1 / 7))
    assert (hazard["floor"], hazard["excess"], hazard["floor_tokens"]) == (None, None, 0)
    (band,) = shown["by_length"]
    assert (band["tokens"], band["pairs"], band["value"], band["floor"]) == ("1-16", 2, 0.5, None)
    (row,) = shown["finish_reasons"]
    assert (row["control"], row["candidate"], row["answers"], row["excess"]) == ("stop", "stop", 2, None)


def test_what_is_asked_of_the_form_comes_with_the_pair_and_no_text_of_it_stays() -> None:
    found = record(['{"name":', '"Ada"}'], ["{", "}"], asked=asking())
    assert found.outputs["quick"]["schema_valid"] == -1.0
    assert "Ada" not in str(found) and "required" not in str(found)


def test_excess_is_beyond_the_floor_by_both_intervals() -> None:
    shown = output_shown("share", Interval(0.5, 0.1, 20, 0.2), Spread(0.2, 0.05))
    assert shown["excess"] == {
        "value": pytest.approx(0.3), "lower": pytest.approx(0.15), "upper": pytest.approx(0.45)
    }  # fmt: skip
    ratios = output_shown("ratio", Interval(log(1.5), 0.0, 20, 0.2), Spread(log(1.2), 0.0))
    assert ratios["excess"]["value"] == pytest.approx(1.25)
    assert output_shown("nats", Interval(0.01, 0.02, 20, 0.1), None)["lower"] == 0.0
