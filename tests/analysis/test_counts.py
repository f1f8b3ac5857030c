"""How many tokens there were, choice by choice, whoever tells: usage, token ids, logprobs or nobody."""

import json
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.timing import timing
from analysis.transcript import Content, Transcript
from tests.analysis.engines import CHAT, read

MS = 1_000_000


@dataclass(frozen=True)
class Burst:
    """Some tokens of one choice in one chunk; a `held` one says nothing yet."""

    choice: int
    tokens: int
    held: bool = False


def sse(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def part(burst: Burst, number: int, teller: str) -> dict[str, Any]:
    names = [f"t{number}-{place}" for place in range(burst.tokens)]
    told: dict[str, Any] = {"index": burst.choice, "delta": {"content": "" if burst.held else "".join(names)}}
    if teller == "token_ids":
        told["token_ids"] = [number * 100 + place for place in range(burst.tokens)]
    if teller == "logprobs":
        told["logprobs"] = {"content": [{"token": name, "logprob": -0.5} for name in names]}
    return told


def stream(bursts: list[Burst], teller: str, *, total: bool = False) -> list[dict[str, Any]]:
    """The chunks of a chat in which `teller` counts the tokens; `total`: a usage of all choices ends it."""
    so_far = dict.fromkeys((burst.choice for burst in bursts), 0)
    chunks: list[dict[str, Any]] = []
    for number, burst in enumerate(bursts):
        so_far[burst.choice] += burst.tokens
        chunk: dict[str, Any] = {"choices": [part(burst, number, teller)]}
        if teller == "usage":
            chunk["usage"] = {"prompt_tokens": 3, "completion_tokens": so_far[burst.choice]}
        chunks.append(chunk)
    for choice in so_far:
        end: dict[str, Any] = {"choices": [{"index": choice, "delta": {}, "finish_reason": "stop"}]}
        if teller == "usage":
            end["usage"] = {"prompt_tokens": 3, "completion_tokens": so_far[choice]}
        chunks.append(end)
    if total:
        usage = {"prompt_tokens": 3, "completion_tokens": sum(so_far.values())}
        chunks.append({"choices": [], "usage": usage})
    return chunks


BURSTS = st.lists(st.builds(Burst, st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=12)


def chat(chunks: list[dict[str, Any]]) -> Content:
    return read(CHAT, [(1, sse(*chunks))])


@pytest.mark.parametrize("teller", ["usage", "token_ids", "logprobs"])
@pytest.mark.parametrize("total", [False, True])
@given(bursts=BURSTS)
def test_the_count_is_that_of_all_choices_and_each_has_its_own(
    bursts: list[Burst], teller: str, total: bool
) -> None:
    content = chat(stream(bursts, teller, total=total))
    made = {burst.choice: 0 for burst in bursts}
    for burst in bursts:
        made[burst.choice] += burst.tokens
    assert content.completion_tokens == sum(made.values())
    assert content.token_source == ("usage" if total else teller)
    assert {choice.index: choice.tokens for choice in content.choices} == made
    assert [event.tokens for event in content.token_events] == [burst.tokens for burst in bursts]


@given(bursts=BURSTS)
def test_where_nobody_tells_the_chunks_are_counted_and_called_so(bursts: list[Burst]) -> None:
    content = chat(stream(bursts, "nobody"))
    assert (content.completion_tokens, content.token_source) == (len(bursts), "chunks")
    assert {choice.tokens for choice in content.choices} == {None}
    told = chat(stream(bursts, "nobody", total=True))
    assert (told.completion_tokens, told.token_source) == (sum(b.tokens for b in bursts), "usage")


@pytest.mark.parametrize("teller", ["usage", "token_ids", "logprobs"])
def test_a_token_that_is_held_back_is_of_the_event_that_says_it(teller: str) -> None:
    bursts = [Burst(0, 1, held=True), Burst(0, 1), Burst(0, 2), Burst(0, 1, held=True)]
    content = chat(stream(bursts, teller))
    assert [event.tokens for event in content.token_events] == [2, 2]
    assert content.completion_tokens == 5


@pytest.mark.parametrize("teller", ["usage", "token_ids", "logprobs", "nobody"])
@settings(max_examples=40)
@given(bursts=BURSTS, data=st.data())
def test_where_the_bytes_are_cut_the_count_is_the_same(
    bursts: list[Burst], teller: str, data: st.DataObject
) -> None:
    raw = sse(*stream(bursts, teller))
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    whole, cut = chat(stream(bursts, teller)), read(CHAT, list(zip(count(1), pieces, strict=False)))
    assert cut.choices == whole.choices
    assert (cut.completion_tokens, cut.token_source) == (whole.completion_tokens, whole.token_source)
    assert [e.tokens for e in cut.token_events] == [e.tokens for e in whole.token_events]


def test_llama_cpps_count_without_a_choice_is_of_the_choice_that_has_just_ended() -> None:
    said = stream([Burst(1, 1), Burst(0, 1), Burst(0, 1)], "nobody")[:3]
    for choice, tokens in ((1, 1), (0, 2)):
        said.append({"choices": [{"index": choice, "delta": {}, "finish_reason": "stop"}]})
        usage = {"prompt_tokens": 3, "completion_tokens": tokens}
        said.append({"choices": [], "usage": usage, "timings": {"prompt_n": 3, "predicted_n": tokens}})
    content = chat(said)
    assert (content.completion_tokens, content.token_source) == (3, "usage")
    assert {choice.index: choice.tokens for choice in content.choices} == {0: 2, 1: 1}


def test_a_single_count_that_came_with_the_last_choice_is_of_all() -> None:
    said = stream([Burst(0, 2), Burst(1, 2)], "nobody")
    said[-1]["usage"] = {"prompt_tokens": 3, "completion_tokens": 4}
    assert chat(said).completion_tokens == 4


def test_of_a_stream_that_is_cut_the_count_so_far_is_of_the_choices_so_far() -> None:
    content = chat(stream([Burst(0, 2), Burst(1, 2), Burst(0, 3)], "usage")[:3])
    assert content.completion_tokens == 7
    assert not content.finished


def test_logprobs_that_nobody_can_read_are_no_fault() -> None:
    odd = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop", "logprobs": [{"token": 5}]}
    content = chat([{"choices": [odd]}])
    assert (content.error, content.choices[0].logprobs, content.token_source) == (None, None, "chunks")


def paced(chunks: list[dict[str, Any]], gap_ms: int) -> Transcript:
    content = read(CHAT, [(at * gap_ms * MS, sse(chunk)) for at, chunk in enumerate(chunks, start=1)])
    return Transcript(0, 0, 1, 10**10, 200, "complete", content)


def test_bursts_keep_their_gap_and_the_time_per_token_is_of_tokens() -> None:
    single = timing(paced(stream([Burst(0, 1)] * 9, "token_ids"), 10))
    burst = timing(paced(stream([Burst(0, 4)] * 9, "token_ids"), 40))
    assert (single.itl_ms, single.tpot_ms, single.arrival_tokens) == (10.0, 10.0, 1.0)
    assert (burst.itl_ms, burst.tpot_ms, burst.arrival_tokens) == (40.0, 10.0, 4.0)


@pytest.mark.parametrize("teller", ["usage", "token_ids", "logprobs"])
def test_choices_that_are_streamed_side_by_side_keep_their_own_pace(teller: str) -> None:
    alone = timing(paced(stream([Burst(0, 1)] * 6, teller), 20))
    both = timing(paced(stream([Burst(0, 1), Burst(1, 1)] * 6, teller), 10))
    assert (both.itl_ms, both.tpot_ms) == (alone.itl_ms, alone.tpot_ms) == (20.0, 20.0)
