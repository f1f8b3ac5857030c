"""What streams do in the field, case by case (the numbers are those of the list of failure classes)."""

import json
from typing import Any

from analysis.transcript import Content, ToolCall
from tests.analysis.engines import CHAT, COMPLETIONS, FIXTURES, MESSAGES, RESPONSES, read


def events(*payloads: Any) -> bytes:
    return b"".join(
        b"data: " + (payload if isinstance(payload, bytes) else json.dumps(payload).encode()) + b"\n\n"
        for payload in payloads
    )


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def chat(*payloads: Any) -> Content:
    return read(CHAT, [(1, events(*payloads))])


def test_of_many_usages_the_last_counts_and_null_is_none() -> None:
    first = {**chunk(content="x"), "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    then = {**chunk(content="y"), "usage": {"prompt_tokens": 5, "completion_tokens": 5}}
    content = chat({**chunk(role="assistant"), "usage": None}, first, then, chunk(finish="stop"))
    assert content.completion_tokens == 5
    assert [event.tokens for event in content.token_events] == [2, 3]


def test_a_usage_that_spans_events_is_not_laid_on_one_of_them() -> None:
    last = {**chunk(content="z", finish="stop"), "usage": {"prompt_tokens": 5, "completion_tokens": 3}}
    content = chat(chunk(content="x"), chunk(content="y"), last)
    assert [event.tokens for event in content.token_events] == [None, None, None]


def tool(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: str = ""
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return chunk(tool_calls=[{"index": index, "id": call_id, "function": function}])


def test_a_named_tool_call_of_vllm_is_one_call() -> None:
    raw = (FIXTURES / "vllm_opts/tools_named_stream.sse").read_bytes()
    (call,) = read(CHAT, [(1, raw)]).choices[0].tool_calls
    assert call.name == "get_weather"
    assert call.arguments.isdigit()


def test_an_error_in_the_stream_is_an_error_whatever_follows() -> None:
    for file, path in (
        ("vllm_opts/sigterm_stream.sse", COMPLETIONS),
        ("dynamo/kill9_mocker_stream.sse", COMPLETIONS),
    ):
        content = read(path, [(1, (FIXTURES / file).read_bytes())])
        assert content.error
        assert content.token_events
        assert not content.finished


def test_done_alone_is_no_success_and_a_reason_alone_is() -> None:
    assert not chat(chunk(content="x"), b"[DONE]").finished
    assert chat(chunk(content="x"), chunk(finish="stop")).finished
    assert not chat(chunk(content="x")).finished
    assert not read(CHAT, [(1, (FIXTURES / "llamacpp/kill9_stream.sse").read_bytes())]).finished


def test_null_in_place_of_an_event_says_nothing() -> None:
    assert chat(b"null", chunk(content="x", finish="stop")).error is None


def test_anthropic_thinking_and_tools_are_told_from_text() -> None:
    content = read(
        MESSAGES,
        [(1, events(
            {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
            {"type": "ping"},
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}},
            {"type": "content_block_start", "index": 2,
             "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
            {"type": "content_block_delta", "index": 2,
             "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ))],
    )  # fmt: skip
    (choice,) = content.choices
    assert (choice.reasoning, choice.text, choice.tool_calls) == ("hm", "hi", (ToolCall("f", '{"a":1}'),))
    assert (content.completion_tokens, content.prompt_tokens, choice.finish_reason) == (9, 3, "tool_use")
    assert [event.visible for event in content.token_events] == [False, True, True, True]


def test_a_failed_response_is_an_error() -> None:
    content = read(
        RESPONSES,
        [(1, events({"type": "response.failed", "response": {"error": {"message": "no", "code": "x"}}}))],
    )
    assert content.error == "no"


def test_tgi_streams_tokens_and_ends_with_the_whole_text() -> None:
    content = read(
        "/generate_stream",
        [(1, events(
            {"index": 0, "token": {"id": 1, "text": "a", "special": False}},
            {"index": 0, "token": {"id": 2, "text": "b", "special": False}, "generated_text": "ab",
             "details": {"finish_reason": "length", "generated_tokens": 2}},
        ))],
    )  # fmt: skip
    assert [(c.text, c.finish_reason) for c in content.choices] == [("ab", "length")]
    assert (content.completion_tokens, len(content.token_events)) == (2, 2)
