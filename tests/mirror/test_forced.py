"""The control's tokens read from its answer, and asked of other engines; who cannot is found out."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror import forced

FIXTURES = Path(__file__).parent.parent / "emulator" / "fixtures"
ids = st.lists(st.integers(0, 200_000), min_size=1, max_size=20)


def stream(prompt: list[int], tokens: list[int], cuts: list[int]) -> list[tuple[int, bytes]]:
    """A chat stream as vLLM sends it, cut into reads anywhere."""
    events = [{"choices": [{"index": 0, "delta": {"role": "assistant"}}], "prompt_token_ids": prompt}]
    events += [{"choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": [one]}]} for one in tokens]
    text = b"".join(b"data: %b\n\n" % json.dumps(e).encode() for e in events) + b"data: [DONE]\n\n"
    edges = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
    return [(n, text[a:b]) for n, (a, b) in enumerate(pairwise(edges))]


@given(ids, ids, st.lists(st.integers(0, 10_000), max_size=5))
def test_the_tokens_of_a_stream_are_read_however_it_was_cut(
    prompt: list[int], tokens: list[int], cuts: list[int]
) -> None:
    answer = {"reads": stream(prompt, tokens, cuts), "content_type": "text/event-stream; charset=utf-8"}
    assert forced.tokens_of(answer) == (prompt, tokens)
    assert forced.is_forced(answer, tokens) and not forced.is_forced(answer, [*tokens, 1])


@pytest.mark.parametrize("name", ["chat_stream_token_ids.sse", "chat_token_ids.json"])
def test_the_tokens_of_vllms_own_answers(name: str) -> None:
    kind = "text/event-stream" if name.endswith("sse") else "application/json"
    found = forced.tokens_of({"reads": [(0, (FIXTURES / name).read_bytes())], "content_type": kind})
    assert found is not None and found[1] == [3013, 2855, 940] and found[0][0] == 1


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b'{"choices":[{"text":"no ids"}]}',
        b'{"prompt_token_ids":[1],"choices":[{"token_ids":[1]},{"index":1,"token_ids":[2]}]}',
        b'{"choices":[{"token_ids":[1]}]}',
        b"\xff\xfe",
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b',"choices":[]}',
    ],
)
def test_an_answer_that_does_not_say_both_or_is_two_forces_nothing(said: bytes) -> None:
    assert forced.tokens_of({"reads": [(0, said)], "content_type": "application/json"}) is None
    assert not forced.is_forced({"reads": [(0, said)], "content_type": "application/json"}, [9])


@pytest.mark.parametrize("id", [-1, 2**32, 2**64, 2**90])
def test_a_number_that_is_no_tokens_id_makes_an_answer_tell_none(id: int) -> None:
    for prompt, said in (([id], [1]), ([1], [2, id])):
        for word in ("token_ids", "response_token_ids"):
            choice = {"index": 0, "prompt_token_ids": prompt, word: said}
            body = json.dumps({"choices": [choice]}).encode()
            answer = {"reads": [(0, body)], "content_type": "application/json"}
            assert forced.tokens_of(answer) is None and not forced.is_forced(answer, said)


def test_what_is_asked_is_what_vllm_documents() -> None:
    asked: Any = json.loads(forced.body("m", [1, 2], [7, 8, 9], "salt"))
    assert asked["token_ids"] == [1, 2] and asked["stream"] is True and asked["cache_salt"] == "salt"
    assert asked["sampling_params"] == {
        "max_tokens": 3,
        "temperature": 0.0,
        "trace_decode_token_ids": [7, 8, 9],
    }
    told: Any = json.loads(forced.body("m", [1, 2], [7, 8, 9], None, 5))
    assert told["sampling_params"]["logprobs"] == 5 and "cache_salt" not in told


@pytest.mark.parametrize(
    ("status", "answer", "can"),
    [
        (200, b'{"choices":[{"token_ids":[11,12,11,13]}]}', True),
        (200, b'{"choices":[{"token_ids":[5,6,7,8]}]}', False),  # took the field and did not heed it
        (200, b"<html>", False),
        (404, b'{"detail":"Not Found"}', False),
        (400, b"{}", False),
        (0, b"", False),
    ],
)
def test_only_an_engine_that_decoded_what_it_was_told_can(status: int, answer: bytes, can: bool) -> None:
    assert forced.can(status, answer) is can
