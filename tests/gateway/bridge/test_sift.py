"""What is taken out of a stream is what the engine told because it was asked, however the stream is cut."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.bridge.sift import Sifter

TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        '"token_ids":[1,2]',
        ',"prompt_token_ids":[3]',
        '\\"token_ids\\":[4]',
        '"token_ids',
        "token_ids",
        '"',
        "\n",
    ]
)
IDS = st.lists(st.integers(0, 200_000), max_size=30)


def stream(prompt: list[int] | None, said: list[tuple[str | None, list[int] | None]]) -> bytes:
    """As vLLM writes it: compact, null where it was not asked, no event for a token that tells nothing."""
    first: dict[str, Any] = {"choices": [{"delta": {"role": "assistant"}}], "prompt_token_ids": prompt}
    events = [{**first, "prompt_text": None}]
    for text, ids in said:
        if text is None and prompt is None:
            continue
        delta = {} if text is None else {"content": text}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, "token_ids": ids}
        events.append({"id": "x", "choices": [choice], "usage": {"completion_tokens": 1}})
    written = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in events]
    return "".join(f"data: {one}\n\n" for one in [*written, "[DONE]"]).encode()


@given(
    IDS.filter(bool),
    st.lists(st.tuples(TEXTS | st.none(), IDS), max_size=6),
    st.lists(st.integers(0, 3000), max_size=12),
)
def test_what_is_left_is_what_comes_unasked(
    prompt: list[int], said: list[tuple[str | None, list[int]]], cuts: list[int]
) -> None:
    asked, unasked = stream(prompt, list(said)), stream(None, [(text, None) for text, _ in said])
    sifter, left, at = Sifter(), b"", 0
    for cut in sorted({min(cut, len(asked)) for cut in (*cuts, len(asked))}):
        left += sifter.sifted(asked[at:cut])
        at = cut
    assert left == unasked and sifter.rest() == b""
    assert json.loads(sifter.ids) == prompt


@given(st.lists(st.tuples(TEXTS, st.none()), max_size=6))
def test_what_has_no_ids_in_it_passes_as_the_very_same_piece(said: list[tuple[str, None]]) -> None:
    whole = stream(None, list(said))
    for event in whole.split(b"\n\n")[:-1]:
        piece = event + b"\n\n"
        assert Sifter().sifted(piece) is piece or b"token_ids" in piece


def test_a_stream_that_ends_within_an_event_is_passed_on_as_it_ended() -> None:
    sifter, cut = Sifter(), b'data: {"prompt_token_ids":[1,2,'
    assert sifter.sifted(cut) + sifter.rest() == cut
    assert sifter.ids == b"" and sifter.rest() == b""


def test_lines_that_end_otherwise_and_comments_are_passed_on_as_they_come() -> None:
    for piece in (b": keep-alive\n\n", b'data: {"a":1}\r\n\r\n', b"event: x\ndata: {}\n\n", b"\n\n"):
        assert Sifter().sifted(piece) is piece


def test_what_never_ends_is_not_held_for_ever() -> None:
    sifter, passed = Sifter(), 0
    for sent in range(1, 41):
        passed += len(sifter.sifted(b"1," * (1 << 17)))
        assert sent * (1 << 18) - passed <= 8 << 20
    assert passed
