"""Logprobs of tokens that an engine was given, as real vLLM tells them and as SGLang does."""

import json
from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.scores import scores_of
from tests.analysis.engines import FIXTURES

VLLM = (FIXTURES / "vllm" / "completion_prompt_logprobs.body").read_bytes()
TOKENS = [3013, 2855, 940]  # the last of the prompt's eight

logprobs = st.floats(-20, -0.001)
rows = st.lists(st.tuples(st.integers(0, 200_000), logprobs), min_size=1, max_size=20)


def of_sglang(prompt: list[int], told: list[tuple[int, float]], tops: bool = True) -> bytes:
    """From the prompt's last token on: of that nothing is said, for nothing was computed before it."""
    places: list[Any] = [[None, prompt[-1], None], *([value, token, None] for token, value in told)]
    meta: dict[str, Any] = {"input_token_logprobs": places, "prompt_tokens": len(prompt) + len(told)}
    if tops:
        meta["input_top_logprobs"] = [None, *([[-0.1, 7, None], [-2.5, 8, None]] for _ in told)]
    return json.dumps({"text": "", "output_ids": [5], "meta_info": meta}).encode()


def of_vllm(prompt: list[int], told: list[tuple[int, float]]) -> bytes:
    prompted: list[Any] = [None, *({str(token): {"logprob": -1.0, "rank": 3}} for token in prompt[1:])]
    scored = [{str(token): {"logprob": value, "rank": 2}} for token, value in told]
    return json.dumps({"choices": [{"text": "x", "prompt_logprobs": prompted + scored}]}).encode()


def test_vllms_own_answer_tells_the_tokens_and_the_likeliest_beside_them() -> None:
    found = scores_of(VLLM, TOKENS)
    assert found is not None and [one.token for one in found] == ["3013", "2855", "940"]
    assert [round(one.logprob, 4) for one in found] == [-7.6805, -7.4916, -7.7356]
    for one in found:
        assert dict(one.top)[one.token] == one.logprob  # its own is among them
        assert sum(exp(value) for _, value in one.top) < 1.0
    assert len(found[0].top) == 4 and len(found[1].top) == 3  # of three likeliest it is one, or not


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=5), rows)
def test_both_kinds_of_answer_tell_the_same(prompt: list[int], told: list[tuple[int, float]]) -> None:
    tokens = [token for token, _ in told]
    ours, theirs = scores_of(of_vllm(prompt, told), tokens), scores_of(of_sglang(prompt, told), tokens)
    assert ours is not None and theirs is not None
    assert [(one.token, one.logprob) for one in ours] == [(one.token, one.logprob) for one in theirs]
    assert [(one.token, one.logprob) for one in ours] == [(str(token), value) for token, value in told]


def test_an_answer_without_alternatives_tells_the_tokens_alone() -> None:
    found = scores_of(of_sglang([1, 2], [(5, -0.5), (6, -1.5)], tops=False), [5, 6])
    assert found is not None and [one.top for one in found] == [(("5", -0.5),), (("6", -1.5),)]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[1]",
        b'{"choices":[{"text":"took the field and did not heed it"}]}',
        b'{"choices":[{"prompt_logprobs":null}]}',
        b'{"choices":[{"prompt_logprobs":[null]}]}',
        b'{"choices":[{"prompt_logprobs":[null,{"5":{"logprob":-1}},{"7":{"logprob":-1}}]}]}',
        b'{"choices":[{"prompt_logprobs":[{"5":{"logprob":-1}},null]}]}',
        b'{"choices":[{"prompt_logprobs":[{"5":{"logprob":-1}},{"6":{"logprob":-1e999}}]}]}',
        b'{"choices":[{"prompt_logprobs":[{"5":{"logprob":-1}},{"6":{"logprob":1000}}]}]}',
        b'{"choices":[{"prompt_logprobs":[{"5":{"logprob":-1}},{"6":{"logprob":-1},"7":{"logprob":0.01}}]}]}',
        b'{"choices":[{"prompt_logprobs":[{"5":{"logprob":-1}},{"6":{"logprob":NaN}}]}]}',
        b'{"meta_info":{"input_token_logprobs":[[-1,5,null],[0.01,6,null]]}}',
        b'{"choices":[{"prompt_logprobs":[{"5":{"logprob":-1}},{"6":{"logprob":-1e300}}]}]}',
        b'{"meta_info":{}}',
        b'{"meta_info":{"input_token_logprobs":[[-1,5,null],[-1,7,null]]}}',
        b'{"meta_info":{"input_token_logprobs":[[null,5,null],[-1,6,null]]}}',
        b'{"meta_info":{"input_token_logprobs":[[-1,6,null]]}}',
        b'{"meta_info":{"input_token_logprobs":[[-1,5,null],[-1,6,null]],"input_top_logprobs":[[]]}}',
    ],
)
def test_an_answer_that_does_not_score_every_token_scores_none(answer: bytes) -> None:
    assert scores_of(answer, [5, 6]) is None


def test_a_certain_token_may_be_rounded_to_a_little_above_certainty() -> None:
    found = scores_of(of_vllm([1], [(5, 1e-6), (6, 0.0)]), [5, 6])
    assert found is not None and [one.logprob for one in found] == [1e-6, 0.0]
