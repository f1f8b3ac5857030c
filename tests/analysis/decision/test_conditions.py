"""`--fail-if`: what can be written, what it means, and that what cannot is refused with what would do."""

from contextlib import suppress
from math import log1p

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.decision.conditions import Condition, ConditionError, parse


@pytest.mark.parametrize(
    ("text", "kind", "measure", "share", "side", "scale", "bound"),
    [
        ("ttft_p99>+5%", "latency", "ttft", 0.99, ">", "change", log1p(0.05)),
        ("tpot > +3 %", "latency", "tpot", None, ">", "change", log1p(0.03)),
        ("e2e>=-10%", "latency", "e2e", None, ">", "change", log1p(-0.10)),
        ("itl_p99.9>80ms", "latency", "itl", 0.999, ">", "ms", 80.0),
        ("ttft>250ms", "latency", "ttft", 0.5, ">", "ms", 250.0),
        ("errors>1%", "errors", "errors", None, ">", "share", 0.01),
        ("errors>+0.5%", "errors", "errors", None, ">", "points", 0.005),
        ("slo_met<99%", "slo", "slo_met", None, "<", "share", 0.99),
        ("slo_met<-1%", "slo", "slo_met", None, "<", "points", -0.01),
        ("exact_match<0.9", "output", "exact_match", None, "<", "score", 0.9),
        ("embedding_similarity<0.8", "output", "embedding_similarity", None, "<", "score", 0.8),
    ],
)
def test_each_kind_of_condition_is_read_as_it_is_meant(
    text: str, kind: str, measure: str, share: float | None, side: str, scale: str, bound: float
) -> None:
    found = parse(text)
    assert (found.kind, found.measure, found.side, found.scale) == (kind, measure, side, scale)
    assert found.bound == pytest.approx(bound) and found.candidate is None
    assert found.share == (None if share is None else pytest.approx(share))


def test_a_name_before_a_colon_is_the_candidate_it_is_about() -> None:
    found = parse("fp8-kv: ttft_p95 > +5%")
    assert (found.candidate, found.measure, found.share) == ("fp8-kv", "ttft", 0.95)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write a measure, < or >, and a bound"),
        ("ttft", "write a measure, < or >, and a bound"),
        ("ttft=5%", "write a measure, < or >, and a bound"),
        ("latency>+5%", "there is no measure 'latency'; there are ttft, visible, itl, tpot, e2e, errors"),
        ("ttft_p99>5%", "with a sign and %"),
        ("ttft_p99>5", "with a sign and %"),
        ("ttft>+5ms", "with a sign and %"),
        ("ttft_p0>+5%", "between p0 and p100"),
        ("ttft_p100>+5%", "between p0 and p100"),
        ("ttft<-100%", "falls by 100 %"),
        ("errors_p99>1%", "have percentiles"),
        ("errors>1", "bounded in %"),
        ("errors>10ms", "bounded in %"),
        ("exact_match<90%", "a score has no unit"),
        ("exact_match<90", "the mean of exact_match lies from 0 to 1"),
        ("refusal>2", "the mean of refusal lies from -1 to 1"),
        ("kl_k3>1.5", "the mean of kl_k3 lies from 0 to 1"),
        ("length_ratio>20", "the mean of length_ratio lies from 0.1 to 10"),
        ("embedding_similarity<-1", "the mean of embedding_similarity lies from 0 to 1"),
        ("errors>150%", "a share of answers lies from 0% to 100%, so it is never met"),
        ("errors>100%", "a share of answers lies from 0% to 100%, so it is never met"),
        ("slo_met<0%", "a share of answers lies from 0% to 100%, so it is never met"),
        ("slo_met<101%", "a share of answers lies from 0% to 100%, so it is always met"),
        ("errors>+150%", "a share is at most 100% above or below another, so it is never met"),
        ("slo_met<-100%", "a share is at most 100% above or below another, so it is never met"),
        ("ttft<0ms", "a latency lies above 0ms, so it is never met"),
        ("exact_match>1", "the mean of exact_match lies from 0 to 1, so it is never met"),
        ("exact_match<0", "the mean of exact_match lies from 0 to 1, so it is never met"),
        (f"ttft>+{'9' * 400}%", "no latency changes by so much, so it is never met"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line_that_says_what_would_do(text: str, said: str) -> None:
    with pytest.raises(ConditionError) as refused:
        parse(text)
    assert said in str(refused.value) and "\n" not in str(refused.value)


@given(
    st.sampled_from(["errors", "slo_met", "exact_match", "refusal", "ttft_p99"]),
    st.sampled_from(["<", ">"]),
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 300),
    st.sampled_from(["", "%", "ms"]),
)
def test_what_is_taken_can_be_met_and_can_be_kept(
    measure: str, side: str, sign: str, number: int, unit: str
) -> None:
    """On either side of its bound there are values that the measure can have."""
    try:
        found = parse(f"{measure}{side}{sign}{number}{unit}")
    except ConditionError:
        return
    least, most = {"share": (0.0, 1.0), "points": (-1.0, 1.0)}.get(found.scale, (-9e9, 9e9))
    if found.scale == "score":
        least, most = (-1.0, 1.0) if measure == "refusal" else (0.0, 1.0)
    if found.scale == "ms":
        least = 0.0
    assert (least < found.bound <= most) if side == "<" else (least <= found.bound < most)


@given(st.text(max_size=30))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with suppress(ConditionError):
        assert isinstance(parse(text), Condition)
