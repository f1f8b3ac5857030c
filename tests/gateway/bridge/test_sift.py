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


def stream(prompt: list[int] | None, said: list[tuple[str, list[int] | None]]) -> bytes:
    """As vLLM writes it: compact, null where it was not asked."""
    first: dict[str, Any] = {"choices": [{"delta": {"role": "assistant"}}], "prompt_token_ids": prompt}
    events = [{**first, "prompt_text": None}]
    events += [{"choices": [{"delta": {"content": text}, "token_ids": ids}]} for text, ids in said]
    written = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in events]
    return "".join(f"data: {one}\n\n" for one in [*written, "[DONE]"]).encode()


@given(
    IDS.filter(bool), st.lists(st.tuples(TEXTS, IDS), max_size=6), st.lists(st.integers(0, 3000), max_size=12)
)
def test_what_is_left_is_what_comes_unasked(
    prompt: list[int], said: list[tuple[str, list[int]]], cuts: list[int]
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


def test_a_stream_that_ends_within_a_member_is_passed_on_as_it_ended() -> None:
    sifter = Sifter()
    assert (
        sifter.sifted(b'data: {"prompt_token_ids":[1,2,') + sifter.rest()
        == b'data: {"prompt_token_ids":[1,2,'
    )
    assert sifter.ids == b"" and sifter.rest() == b""


def test_what_never_ends_is_not_held_for_ever() -> None:
    sifter, held = Sifter(), 0
    assert sifter.sifted(b'{"token_ids":[') == b"{"
    for _ in range(40):
        held += (1 << 18) - len(sifter.sifted(b"1," * (1 << 17)))
        assert held <= (8 << 20) + (1 << 18)
    assert held < 20 << 18
