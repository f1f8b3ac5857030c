"""At which byte of a captured stream is each of its tokens there?  Found here without the readers."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from analysis.transcript import Content, Transcript
from tests.analysis.engines import (
    CAPTURED,
    CHAT,
    COMPLETIONS,
    FIXTURES,
    LONG,
    MESSAGES,
    RESPONSES,
    Captured,
    Long,
    read,
)

STREAMS = [answer for answer in CAPTURED if answer.file.endswith(".sse")]
streams = pytest.mark.parametrize("answer", [*STREAMS, *LONG], ids=lambda answer: answer.file)
long_streams = pytest.mark.parametrize("answer", LONG, ids=lambda answer: answer.file)


def events(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Each event's JSON and the offset of the byte that ends it: the second line feed of its blank line."""
    begin = 0
    while (end := raw.find(b"\n\n", begin)) >= 0:
        for line in raw[begin:end].split(b"\n"):
            if line.startswith(b"data: {"):
                yield end + 1, json.loads(line.removeprefix(b"data: "))
        begin = end + 2


def of_choice(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    calls = [call["function"] for call in delta.get("tool_calls") or ()]
    said = [choice.get("text"), *(delta.get(key) for key in ("content", "reasoning", "reasoning_content"))]
    return any(said) or any(call.get("name") or call.get("arguments") for call in calls)


def tokens_at(path: str, raw: bytes) -> list[int]:
    """The offsets at which something is said, once for each choice that says it."""
    found: list[int] = []
    before = ""
    for at, event in events(raw):
        match path:
            case "/v1/chat/completions" | "/v1/completions":
                said = [choice for choice in event.get("choices") or () if of_choice(choice)]
            case "/v1/responses":
                said = [event] if event["type"].endswith(".delta") and event["delta"] else []
            case "/v1/messages":
                said = [event] if event["type"] == "content_block_delta" else []
            case "/completion":
                said = [event] if event["content"] else []
            case _:  # SGLang's /generate, which repeats all that it has said
                said, before = ([event] if event["text"] != before else []), event["text"]
        found += [at] * len(said)
    return found


def transcript(content: Content, end_ns: int) -> Transcript:
    return Transcript(0, 0, 0, end_ns, 200, "complete", content)


@streams
def test_each_token_is_there_with_the_last_byte_of_its_event_and_not_before(answer: Captured | Long) -> None:
    raw = answer.raw
    content = read(answer.path, [(at, raw[at : at + 1]) for at in range(len(raw))])
    expected = tokens_at(answer.path, raw)
    assert [event.at_ns for event in content.token_events] == expected
    assert len(expected) == answer.events
    whole = transcript(content, len(raw))
    assert whole.first_token_ns == whole.first_visible_ns == (expected[0] if expected else None)
    assert whole.last_token_ns == (expected[-1] if expected else None)


@long_streams
def test_a_long_answer_of_a_real_engine_is_read_right(answer: Long) -> None:
    content = read(answer.path, [(1, answer.raw)])
    (choice,) = content.choices
    assert (choice.text[: len(answer.begins)], len(choice.text)) == (answer.begins, answer.characters)
    assert choice.text.endswith(answer.ends)
    assert (choice.finish_reason, choice.tool_calls, choice.reasoning) == (answer.reason, (), "")
    assert (content.completion_tokens, content.token_source) == (answer.events, "chunks")
    assert (content.prompt_tokens, content.cached_tokens, content.usage_ns) == (None, None, None)
    assert content.finished == (answer.reason is not None)
    if answer.complaint is None:
        assert content.error is None
    else:
        assert content.error is not None and content.error.startswith(answer.complaint)


@long_streams
def test_a_long_answer_cut_anywhere_reads_like_the_whole(answer: Long) -> None:
    raw = answer.raw
    cuts = sorted(random.Random(6).sample(range(len(raw)), 400))
    pieces = [raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    cut, whole = read(answer.path, [(1, piece) for piece in pieces]), read(answer.path, [(1, raw)])
    assert cut == whole


def test_every_protocol_that_streams_is_among_the_captured_and_no_file_is_left_out() -> None:
    assert {answer.path for answer in STREAMS} == {
        CHAT, COMPLETIONS, RESPONSES, MESSAGES, "/completion", "/generate",
    }  # fmt: skip
    named = {answer.file for answer in STREAMS} | {answer.file for answer in LONG}
    kept = {str(file.relative_to(FIXTURES)).removesuffix(".gz") for file in FIXTURES.rglob("*.sse*")}
    assert named == kept
