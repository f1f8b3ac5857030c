"""Token counts out of an answer's end: every API of every engine, wherever it is cut; never invented."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.usage import Usage, usage

FIXTURES = Path(__file__).parents[1] / "analysis" / "fixtures"

TOLD = {
    "dynamo/chat.body": (21, 0, 6),
    "dynamo/chat_stream_usage.sse": (21, 16, 6),
    "llamacpp/chat.body": (37, 0, 16),
    "llamacpp/chat_stream.sse": (37, 36, 12),  # nobody asked for usage: its timings tell
    "llamacpp/chat_stream_usage.sse": (37, 36, 8),
    "llamacpp/messages.body": (37, 25, 8),  # Anthropic's input_tokens leave out what was cached
    "llamacpp/messages_stream.sse": (37, 36, 4),  # the prompt's only in message_start
    "llamacpp/native_completion_stream.sse": (5, 4, 4),
    "llamacpp/responses.body": (33, 25, 8),
    "llamacpp/responses_stream.sse": (33, 32, 4),
    "sglang/chat_stream_contusage.sse": (21, None, 3),
    "sglang/generate.body": (2, 1, 4),
    "sglang/generate_stream.sse": (3, 2, 3),
    "sglang/responses_stream.sse": (14, 13, 1),
    "tfserve/chat_stream_usage.sse": (16, None, 4),
    "vllm/chat.body": (21, None, 6),
    "vllm/chat_stream_contusage.sse": (21, None, 3),  # the last of many, not their sum
    "vllm/chat_stream_usage.sse": (21, None, 6),
    "vllm/completion.body": (5, None, 6),
    "vllm/completion_stream.sse": (5, None, 6),
    "vllm/messages.body": (21, None, 4),
    "vllm/messages_stream.sse": (21, None, 3),
    "vllm/responses.body": (14, 0, 4),
    "vllm/responses_stream.sse": (14, 0, 3),
    "vllm_opts/stream_usage_details.sse": (140, 128, 4),
}
SILENT = (
    "vllm/chat_stream.sse",
    "vllm/err_toolong.body",
    "sglang/err_temp.body",
    "dynamo/kill9_mocker_stream.sse",
)


def reads(name: str) -> tuple[list[bytes], bool]:
    """An answer as an engine sends it: a read for each event, a document whole."""
    data = (FIXTURES / name).read_bytes()
    if not name.endswith(".sse"):
        return [data], False
    return [block + b"\n\n" for block in data.split(b"\n\n") if block], True


@pytest.mark.parametrize("name", TOLD)
def test_every_engine_and_api_is_understood(name: str) -> None:
    pieces, is_events = reads(name)
    assert usage(pieces[-4:], is_events, pieces[0]) == Usage(*TOLD[name])


@pytest.mark.parametrize("name", [name for name in TOLD if name.endswith(".sse")])
def test_where_an_answers_reads_are_cut_makes_no_difference(name: str) -> None:
    data = (FIXTURES / name).read_bytes()[-3000:]
    whole = usage([data], True)
    for cut in range(max(0, len(data) - 400), len(data)):
        assert usage([data[:cut], data[cut:]], True) == whole


@pytest.mark.parametrize("name", SILENT)
def test_what_no_engine_said_is_missing_and_not_zero(name: str) -> None:
    pieces, is_events = reads(name)
    assert usage(pieces[-4:], is_events, pieces[0]) is None


def test_a_prompts_count_that_is_out_of_reach_is_missing() -> None:
    pieces, _ = reads("llamacpp/messages_stream.sse")
    assert usage(pieces[-2:], True) == Usage(None, None, 4)


def test_line_ends_and_blanks_are_as_engines_like_them() -> None:
    one = b'data:{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}\r\n\r\n'
    assert usage([one, b"data: [DONE]\r\n\r\n"], True) == Usage(5, None, 7)


def test_a_batchs_answers_are_added_up_and_a_streams_are_not() -> None:
    one = b'{"text":"x","meta_info":{"prompt_tokens":2,"completion_tokens":3,"cached_tokens":1}}'
    assert usage([b"[" + one + b"," + one + b"]"], False) == Usage(4, 2, 6)
    assert usage([b"data: " + one + b"\n\n", b"data: " + one + b"\n\n"], True) == Usage(2, 1, 3)


def test_tgis_details_tell_the_completion() -> None:
    event = b'data:{"generated_text":"x","details":{"finish_reason":"length","generated_tokens":9}}\n\n'
    assert usage([event], True) == Usage(None, None, 9)


def test_neither_a_models_words_nor_an_echoed_schema_are_taken_for_counts() -> None:
    words = rb'data: {"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":1,\"input_tokens\":1}"}}]}'
    assert usage([words + b"\n\ndata: [DONE]\n\n"], True) is None
    echoed = (
        b'{"usage":{"input_tokens":14,"output_tokens":2},'
        b'"tools":[{"parameters":{"properties":{"usage":{"input_tokens":1,"output_tokens":1}}}}]}'
    )
    assert usage([echoed], False) == Usage(14, None, 2)
    assert usage([b'data: {"type":"response.completed","response":' + echoed + b"}\n\n"], True) == Usage(
        14, None, 2
    )


def test_counts_that_stand_within_something_else_are_not_the_documents() -> None:
    own = b'"usage":{"prompt_tokens":1,"completion_tokens":2}'
    others = b'"usage":{"prompt_tokens":7,"completion_tokens":7}'
    for within in (b'"last":{%b}', b'"last":[{%b}]', b'"last":{"a":{%b}}', b'"last":{%b,"b":[{}]}'):
        assert usage([b"{" + own + b"," + within % others + b"}"], False) == Usage(1, None, 2)
        assert usage([b"{" + within % others + b',"id":1}'], False) is None
    assert usage([b'{"choices":[],' + own + b',"x":null,"y":{"z":[]}}'], False) == Usage(1, None, 2)


def test_a_long_document_is_not_read_whole_and_yet_tells() -> None:
    vectors = (
        b'{"data":['
        + b"0.5," * 25_000
        + b'0],"usage":{"prompt_tokens":3,"total_tokens":3,"completion_tokens":0}}'
    )
    assert usage([vectors[at : at + 60_000] for at in range(0, len(vectors), 60_000)][-4:], False) == Usage(
        3, None, 0
    )
    first = b'{"usage":{"prompt_tokens":3},"results":[' + b"0.5," * 25_000 + b"0]}"
    assert usage([first], False) == Usage(3, None, None)


@pytest.mark.parametrize("number", ["-1", "1e300", "1.5e18", '"7"', "true", "[1]", "{}"])
def test_a_count_that_is_no_count_is_missing(number: str) -> None:
    told = usage([b'data: {"usage":{"prompt_tokens":%b,"completion_tokens":2}}\n\n' % number.encode()], True)
    assert told is None or told.prompt_tokens is None


@given(
    st.lists(
        st.binary(max_size=80) | st.sampled_from([b'"usage":{', b'_tokens":1', b"{" * 2000, b"\ndata: "])
    ),
    st.booleans(),
)
def test_no_answer_crashes_the_search(pieces: list[bytes], is_events: bool) -> None:
    usage(pieces, is_events)


COUNTS = st.one_of(st.integers(0, 1 << 30), st.none(), st.floats(0, 1e6), st.just("7"))
DETAILS = st.none() | st.fixed_dictionaries({}, optional={"cached_tokens": COUNTS, "audio_tokens": COUNTS})


@given(
    told=st.fixed_dictionaries(
        {"prompt_tokens": COUNTS, "completion_tokens": COUNTS},
        optional={
            "total_tokens": COUNTS,
            "cached_tokens": COUNTS,
            "prompt_tokens_details": DETAILS,
            "completion_tokens_details": DETAILS,
        },
    ),
    after=st.dictionaries(st.sampled_from(["id", "model", "x"]), COUNTS | st.just({"y": [1]})),
)
def test_counts_at_the_end_are_read_alike_at_a_glance_and_by_decoding(
    told: dict[str, Any], after: dict[str, Any]
) -> None:
    given = {"choices": [{"text": "a}"}], "usage": told, **after}
    tight, loose = json.dumps(given, separators=(",", ":")), json.dumps(given, separators=(" , ", " : "))
    assert usage([tight.encode()], False) == usage([loose.encode()], False)
