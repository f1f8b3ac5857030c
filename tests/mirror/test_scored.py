"""What engines are asked when they are to score tokens, and who is found to know how."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.scored import MOST_TOKENS, Way, body, can, fitting, probe
from tests.analysis.engines import FIXTURES


def test_vllm_is_asked_for_the_logprobs_of_a_prompt_that_ends_with_the_tokens() -> None:
    asked: Any = json.loads(body("completions", "m", [1, 2, 3], [7, 8], 20, "salt"))
    assert asked == {
        "model": "m",
        "prompt": [1, 2, 3, 7, 8],
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": 20,
        "cache_salt": "salt",
    }
    assert not json.loads(body("completions", None, [1], [7], 5, None)).keys() & {"model", "cache_salt"}


def test_sglang_is_asked_for_them_from_the_prompts_last_token_on() -> None:
    asked: Any = json.loads(body("generate", "m", [1, 2, 3], [7, 8], 20, "salt"))
    assert asked["input_ids"] == [1, 2, 3, 7, 8] and asked["return_logprob"] is True
    assert asked["logprob_start_len"] == 2 and asked["top_logprobs_num"] == 20
    assert "stream" not in asked


def probed(way: Way, tops: int) -> bytes:
    """An answer to the probe, of an engine that knows this way."""
    tokens = json.loads(probe(way, None, 20))["prompt" if way == "completions" else "input_ids"][-4:]
    others = [[-2.0 - n, 50 + n, None] for n in range(tops)]
    if way == "generate":
        meta = {"input_token_logprobs": [[None, 3, None], *([-1.0, token, None] for token in tokens)]}
        return json.dumps({"meta_info": {**meta, "input_top_logprobs": [None] + [others] * 4}}).encode()
    rows = [{str(name): {"logprob": value} for value, name, _ in [[-1.0, t, None], *others]} for t in tokens]
    return json.dumps({"choices": [{"prompt_logprobs": [None, {}, {}, *rows]}]}).encode()


@pytest.mark.parametrize("way", ["completions", "generate"])
def test_only_an_engine_that_told_every_token_and_alternatives_can(way: Way) -> None:
    assert can(200, probed(way, 5))
    assert not can(200, probed(way, 0))
    assert not can(400, probed(way, 5))
    assert not can(200, b'{"choices":[{"text":"took the field and did not heed it"}]}')
    assert not can(200, (FIXTURES / "vllm" / "completion_prompt_logprobs.body").read_bytes())  # other tokens
    assert not can(0, b"")


tokens = st.lists(st.integers(0, 200_000), max_size=700)


@given(tokens, tokens, st.integers(2, 2000), st.booleans())
def test_no_engine_is_asked_for_more_rows_than_are_allowed(
    prompt: list[int], said: list[int], rows: int, all_sglang: bool
) -> None:
    kept = fitting(("generate",) if all_sglang else ("generate", "completions"), prompt, said, rows)
    needed = len(kept) + (0 if all_sglang else len(prompt))
    assert kept == said[: len(kept)] and len(kept) <= MOST_TOKENS
    assert needed <= rows or not kept
    if len(kept) < len(said):  # nothing is left out without need
        assert needed == rows or len(kept) == MOST_TOKENS or (not kept and len(prompt) >= rows)
