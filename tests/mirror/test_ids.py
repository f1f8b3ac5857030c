"""The control's word about a copy's prompt is found however it was read; nobody else's is taken for it."""

import json
from array import array
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.frames import Copy
from mirror.ids import ids_in, told_by

IDS = [1, 3557, 201, 70_000]
DOCUMENT = json.dumps({"choices": [{"message": {"content": "x"}}], "prompt_token_ids": IDS}).encode()
FIRST = b"data: " + json.dumps({"prompt_token_ids": IDS, "prompt_text": None}).encode() + b"\n\n"
STREAM = FIRST + b'data: {"choices":[{"delta":{"content":"x"},"token_ids":[5]}]}\n\ndata: [DONE]\n\n'
COPY = Copy("e", "id-1", "/v1/chat/completions?x=1", [], b"{}", 0, 0, 0, 0, stream=False)


def cut(whole: bytes, size: int) -> list[tuple[int, bytes]]:
    return [(at, whole[at : at + size]) for at in range(0, len(whole), size)]


@given(st.integers(1, 400))
def test_ids_are_found_however_the_answer_was_read(size: int) -> None:
    packed = array("I", IDS).tobytes()
    assert ids_in(cut(DOCUMENT, size), is_stream=False) == packed
    assert ids_in(cut(STREAM, size), is_stream=True) == packed


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b'{"choices":[{"message":{"content":"\\"prompt_token_ids\\": [1, 2]"}}]}',
        b'{"prompt_token_ids": null}',
        b'{"prompt_token_ids": []}',
        b'{"prompt_token_ids": [1, "2"]}',
        b'{"prompt_token_ids": [99999999999]}',
        b'{"prompt_token_ids": [1 2]}',
    ],
)
def test_what_are_no_ids_is_not_taken_for_any(said: bytes) -> None:
    assert ids_in([(0, said)], is_stream=False) is None


def test_only_the_first_event_of_a_stream_is_looked_into() -> None:
    assert ids_in(cut(b"data: {}\n\n" + FIRST, 5), is_stream=True) is None


def answer(**changed: Any) -> dict[str, Any]:
    said = {"arm": "control", "twin": 0, "status": 200, "content_type": "application/json"}
    return {**said, "reads": [(0, DOCUMENT)], **changed}


def test_the_control_is_told_of_and_no_other_arm_twin_or_refusal() -> None:
    told = told_by(COPY, answer())
    assert told is not None
    assert msgpack.unpackb(told) == [
        "ids",
        {"id": "id-1", "path": "/v1/chat/completions", "body": b"{}", "ids": array("I", IDS).tobytes()},
    ]
    others: list[dict[str, Any]] = [{"arm": "tried"}, {"twin": 1}, {"status": None}, {"reads": []}]
    for other in others:
        assert told_by(COPY, answer(**other)) is None
