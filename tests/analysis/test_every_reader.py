"""Laws of every reader, over answers of real engines."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.readers._choose import reader_of
from analysis.transcript import Content
from tests.analysis.engines import CAPTURED, CHAT, COMPLETIONS, FIXTURES, MESSAGES, RESPONSES, Captured, read

PATHS = [CHAT, COMPLETIONS, RESPONSES, MESSAGES, "/completion", "/generate", "/v1/embeddings"]
captured = pytest.mark.parametrize("answer", CAPTURED, ids=lambda answer: answer.file)


@captured
def test_what_a_real_engine_said_is_read_right(answer: Captured) -> None:
    content = read(answer.path, [(1, answer.raw)])
    assert tuple(choice.text for choice in content.choices) == answer.texts
    assert tuple(choice.finish_reason for choice in content.choices) == answer.reasons
    assert len(content.token_events) == answer.events
    assert (content.completion_tokens, content.token_source) == (answer.tokens, answer.source)
    assert (content.prompt_tokens, content.cached_tokens) == (answer.prompt, answer.cached)
    assert (content.error is None) == content.finished == bool(answer.texts)
    assert content.streamed == answer.file.endswith(".sse")


def without_instants(content: Content) -> Content:
    events = tuple(dataclasses.replace(event, at_ns=0) for event in content.token_events)
    return dataclasses.replace(content, token_events=events, role_ns=None, usage_ns=None, last_ns=None)


@captured
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_where_the_bytes_are_cut_does_not_matter(answer: Captured, data: st.DataObject) -> None:
    raw = answer.raw
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=12).map(sorted))
    pieces = [raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    cut = read(answer.path, list(enumerate(pieces, start=1)))
    assert without_instants(cut) == without_instants(read(answer.path, [(1, raw)]))


@captured
def test_single_bytes_read_like_the_whole(answer: Captured) -> None:
    raw = answer.raw
    single = read(answer.path, [(at, raw[at : at + 1]) for at in range(len(raw))])
    assert without_instants(single) == without_instants(read(answer.path, [(1, raw)]))


@captured
@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_line_ends_do_not_matter(answer: Captured, line_end: bytes) -> None:
    if answer.file.endswith(".sse"):
        spelled = read(answer.path, [(1, answer.raw.replace(b"\n", line_end))])
        assert spelled == read(answer.path, [(1, answer.raw)])


@captured
def test_token_instants_are_those_of_the_reads_that_completed_them(answer: Captured) -> None:
    content = read(answer.path, [(at, answer.raw[at : at + 7]) for at in range(0, len(answer.raw), 7)])
    instants = [event.at_ns for event in content.token_events]
    assert instants == sorted(instants)
    assert all(at % 7 == 0 for at in instants)
    assert content.role_ns is None or all(content.role_ns <= at for at in instants)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.binary(max_size=40), max_size=6))
def test_garbage_never_raises(path: str, pieces: list[bytes]) -> None:
    content = read(path, list(enumerate(pieces)))
    assert content.opaque or content.error is not None or not content.finished


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5))
KEYS = st.sampled_from(
    sorted(
        {
            "choices",
            "delta",
            "message",
            "content",
            "index",
            "text",
            "tool_calls",
            "function",
            "arguments",
            "usage",
        }
        | {
            "prompt_tokens",
            "error",
            "type",
            "output",
            "response",
            "item",
            "output_index",
            "content_block",
            "stop",
        }
        | {"finish_reason", "token_ids", "meta_info", "token", "details", "timings"}
    )
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=60, deadline=None)
@given(
    value=JSON, kind=st.sampled_from(["response.completed", "content_block_delta", "message_start", "error"])
)
def test_json_of_any_shape_never_raises(path: str, value: object, kind: str) -> None:
    if isinstance(value, dict):
        value = {"type": kind, **value}
    text = json.dumps(value).encode()
    for raw in (b"data: " + text + b"\n\n", text):
        reader = reader_of(path)
        reader.feed(raw, 1)
        reader.end(2)


def texts(content: Content) -> dict[int, str]:
    return {choice.index: choice.text for choice in content.choices}


@captured
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_stream_that_stops_short_of_its_end_is_not_finished_or_lost_nothing(
    answer: Captured, data: st.DataObject
) -> None:
    raw = answer.raw
    kept = data.draw(st.integers(0, len(raw)))
    content = read(answer.path, [(1, raw[:kept])])
    whole_texts = texts(read(answer.path, [(1, raw)])).items()
    if content.finished:
        assert all(choice in whole_texts for choice in texts(content).items())
    for index, short in texts(content).items():
        assert dict(whole_texts)[index].startswith(short)


@pytest.mark.parametrize(("file", "path"), [("embed", "/v1/embeddings"), ("rerank", "/v1/rerank")])
def test_an_answer_without_tokens_has_an_end_and_no_more(file: str, path: str) -> None:
    raw = (FIXTURES / f"vllm_embed/{file}.body").read_bytes()
    content = read(path, [(5, raw[:9]), (7, raw[9:])])
    assert (content.opaque, content.finished, content.last_ns) == (True, True, 7)
    assert (content.token_events, content.completion_tokens, content.error) == ((), None, None)


def test_increments_of_sglang_are_told_from_the_whole_repeated() -> None:
    def said(text: str, ids: list[int], tokens: int) -> bytes:
        meta = {"completion_tokens": tokens, "finish_reason": None}
        return b"data: " + json.dumps({"text": text, "output_ids": ids, "meta_info": meta}).encode() + b"\n\n"

    repeated = said("a", [5], 1) + said("aa", [5, 5], 2) + said("aab", [5, 5, 6], 3)
    increments = said("a", [5], 1) + said("a", [5], 2) + said("b", [6], 3)
    for raw in (repeated, increments):
        content = read("/generate", [(1, raw)])
        assert content.choices[0].text == "aab"
        assert content.choices[0].token_ids == (5, 5, 6)
        assert [event.tokens for event in content.token_events] == [1, 1, 1]


def test_a_query_or_a_slash_does_not_change_the_protocol() -> None:
    raw = b'{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}'
    assert read(CHAT + "/?a=b", [(1, raw)]) == read(CHAT, [(1, raw)])
