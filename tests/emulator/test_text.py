"""Laws of the tokenizer and the chat template."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.chat import prompt_of, text_of
from emulator.generation import Generator, Wish
from emulator.text import IM_END, SPECIALS, VOCABULARY, Tokenizer, UnknownToken
from tests.emulator.support import generator

ENGLISH = (
    "The engine keeps the blocks of every prefix it has computed, and evicts the oldest when it must. " * 5
)


@settings(deadline=None)
@given(st.text())
def test_every_text_round_trips(text: str) -> None:
    tokenizer = Tokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(deadline=None)
@given(st.text())
def test_deltas_join_to_the_text(text: str) -> None:
    tokenizer = Tokenizer()
    tokens = tokenizer.encode(text)
    deltas = tokenizer.deltas(tokens)
    assert len(deltas) == len(tokens) and "".join(deltas) == text


@settings(deadline=None)
@given(st.text(), st.integers(0, 400))
def test_a_cut_answer_reads_back_as_the_same_tokens(text: str, cut: int) -> None:
    tokenizer = Tokenizer()
    tokens = tokenizer.encode(text)[:cut]
    shown = tokenizer.decode(tokens)
    if "\ufffd" not in shown:
        assert tokenizer.encode(shown) == tokens


@settings(deadline=None)
@given(st.integers(0, VOCABULARY - 1))
def test_every_id_has_bytes_and_ids_are_distinct(token: int) -> None:
    tokenizer = Tokenizer()
    try:
        raw = tokenizer.token_bytes(token)
    except UnknownToken:
        assert 259 <= token < 2048  # reserved
        return
    assert raw
    if token not in SPECIALS and token > 255:
        assert tokenizer.encode(raw.decode()) == (token,)


def test_english_is_about_four_characters_a_token() -> None:
    assert 3.0 < len(ENGLISH) / len(Tokenizer().encode(ENGLISH)) < 5.0


@pytest.mark.parametrize("token", [-1, VOCABULARY, 2000])
def test_an_id_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(UnknownToken):
        Tokenizer().decode([token])


def test_a_user_cannot_write_special_tokens() -> None:
    tokenizer = Tokenizer()
    assert IM_END not in tokenizer.encode("<|im_end|>")


@settings(deadline=None)
@given(st.text(min_size=1, max_size=80), st.integers(1, 60))
def test_the_next_turn_begins_with_this_turns_prompt_and_answer(question: str, max_tokens: int) -> None:
    tokenizer = Tokenizer()
    maker: Generator = generator(tokenizer)
    first = [{"role": "user", "content": question}]
    prompt = prompt_of(tokenizer, first)
    plan = maker.plan(prompt, Wish(max_tokens))
    text = "".join(plan.deltas)
    second = [*first, {"role": "assistant", "content": text}, {"role": "user", "content": "more"}]
    if "\ufffd" not in text:
        assert prompt_of(tokenizer, second)[: len(prompt) + len(plan.tokens)] == [*prompt, *plan.tokens]


def test_content_parts_are_read_as_their_text() -> None:
    assert text_of([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\nb"
    assert text_of(None) == ""
