"""Usage comes in a chunk without choices, in every chunk, or as null: crashes near the end, lost counts."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.measure import measure
from gateway.usage import Usage
from gateway.usage import usage as usage_of
from tests.failures.mirrored import content, mirrored
from tests.failures.support import ask_each, last_counts, number, told
from tests.support import LAST, SSE_HEAD, Engine, Peer, chunk, running
from tests.support_shared import run


def usage(prompt: int | None, completion: int | None, **more: Any) -> dict[str, Any]:
    total = (prompt or 0) + (completion or 0)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}


def said(text: str | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


CACHED = {"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 0}}
TOKENS = [said(f"t{n} ") for n in range(7)]
FINISH = said(None, "stop")
EACH = [said(f"t{n} ", usage=usage(5, n + 1)) for n in range(7)]
# How usage comes, the counts that it then means, and where they are from.
STYLES: dict[str, tuple[list[Any], tuple[int | None, int, int | None, str]]] = {
    "a last chunk without choices": (
        [*TOKENS, FINISH, {"choices": [], "usage": usage(5, 7)}],
        (5, 7, None, "usage"),
    ),
    "with details": (
        [*TOKENS, FINISH, {"choices": [], "usage": usage(5, 7, **CACHED)}],
        (5, 7, 4, "usage"),
    ),
    "details of null": (
        [*TOKENS, FINISH, {"choices": [], "usage": usage(5, 7, prompt_tokens_details=None)}],
        (5, 7, None, "usage"),
    ),
    "no choices at all": ([*TOKENS, FINISH, {"usage": usage(5, 7)}], (5, 7, None, "usage")),
    "choices of null": ([*TOKENS, FINISH, {"choices": None, "usage": usage(5, 7)}], (5, 7, None, "usage")),
    "with the finish reason": ([*TOKENS, said(None, "stop", usage=usage(5, 7))], (5, 7, None, "usage")),
    "with the last token": (
        [*TOKENS[:-1], said("t6 ", "stop", usage=usage(5, 7))],
        (5, 7, None, "usage"),
    ),
    "null until the last": (
        [{**one, "usage": None} for one in (*TOKENS, FINISH)] + [{"choices": [], "usage": usage(5, 7)}],
        (5, 7, None, "usage"),
    ),
    "with every chunk": ([*EACH, said(None, "stop", usage=usage(5, 7))], (5, 7, None, "usage")),
    "with every chunk and once more": (
        [*EACH, FINISH, {"choices": [], "usage": usage(5, 7)}],
        (5, 7, None, "usage"),
    ),
    "twice the same": (
        [*TOKENS, FINISH, *[{"choices": [], "usage": usage(5, 7)}] * 2],
        (5, 7, None, "usage"),
    ),
    "of zero at first": (
        [said("t0 ", usage=usage(5, 0)), *TOKENS[1:], FINISH, {"choices": [], "usage": usage(5, 7)}],
        (5, 7, None, "usage"),
    ),
    "more tokens than events": (
        [*TOKENS[:2], FINISH, {"choices": [], "usage": usage(5, 7)}],
        (5, 7, None, "usage"),
    ),
    "the engine's own timings": (
        [*TOKENS, {**FINISH, "timings": {"cache_n": 4, "prompt_n": 1, "predicted_n": 7}}],
        (5, 7, 4, "usage"),
    ),
    "token ids": (
        [
            {"choices": [{"index": 0, "delta": {"content": "t"}, "token_ids": ids}]}
            for ids in ([1], [2, 3], [4, 5, 6], [7])
        ]
        + [FINISH],
        (None, 7, None, "token_ids"),
    ),
    "an empty object": ([*TOKENS, FINISH, {"choices": [], "usage": {}}], (None, 7, None, "chunks")),
    "never": ([*TOKENS, FINISH], (None, 7, None, "chunks")),
}
ended = pytest.mark.parametrize("done", [True, False], ids=["with [DONE]", "without"])


def stream(payloads: list[Any], done: bool) -> list[bytes]:
    """The events of a stream."""
    end = [b"data: [DONE]\n\n"] if done else []
    return [b"data: %b\n\n" % json.dumps(payload).encode() for payload in payloads] + end


@ended
def test_h04_usage_chunk_in_every_style_is_passed_on_as_it_is_and_complete(done: bool) -> None:
    cases = [stream(payloads, done) for payloads, _ in STYLES.values()]

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, *map(chunk, cases[number(peer)]), LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            for got, sent in zip(await ask_each(gateway.port, len(cases)), cases, strict=True):
                assert got.is_whole and got.text == b"".join(sent)
            assert (await last_counts(gateway, heard)).get("complete") == len(cases)

    run(test())


@ended
def test_h04_usage_chunk_in_every_style_gives_the_last_count_once(done: bool, tmp_path: Path) -> None:
    """Each in reads of its own and all in one read: the same counts, never their sum."""

    async def test() -> None:
        cases = [stream(payloads, done) for payloads, _ in STYLES.values()]
        together = [[b"".join(case)] for case in cases]
        pairs = await mirrored(tmp_path, [*cases, *together], gap_s=0.001)
        for (style, (_, counts)), pair in zip([*STYLES.items()] * 2, pairs, strict=True):
            read = content(pair["answers"][0])
            assert (read.prompt_tokens, read.completion_tokens, read.cached_tokens, read.token_source) == (
                counts
            ), style
            assert read.error is None and read.finished and read.choices[0].text.startswith("t"), style
            measured = measure(pair).answer("control")
            assert measured is not None and measured.fault is None and measured.completion_tokens == 7

    run(test())


@ended
@pytest.mark.parametrize("style", STYLES)
def test_h04_usage_chunk_in_every_style_is_what_the_gateway_books(style: str, done: bool) -> None:
    """The gateway's own count: the engine's last word, and where it says none, none."""
    payloads, (prompt, completion, cached, source) = STYLES[style]
    said = Usage(prompt, cached, completion) if source == "usage" else None
    assert usage_of(stream(payloads, done)[-4:], True) == said


OTHERS: dict[str, list[Any]] = {
    "/v1/completions": [
        *({"choices": [{"index": 0, "text": "t", "finish_reason": None}]} for _ in range(7)),
        {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]},
        {"choices": [], "usage": usage(5, 7)},
    ],
    "/v1/messages": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        *({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "t"}} for _ in range(7)),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ],
    "/v1/responses": [
        *({"type": "response.output_text.delta", "output_index": 0, "delta": "t"} for _ in range(7)),
        {
            "type": "response.completed",
            "response": {"status": "completed", "usage": {"input_tokens": 5, "output_tokens": 7}},
        },
    ],
}


@pytest.mark.parametrize("path", OTHERS)
def test_h04_usage_chunk_of_other_protocols_gives_the_last_count_once(path: str, tmp_path: Path) -> None:
    async def test() -> None:
        (pair,) = await mirrored(tmp_path, [stream(OTHERS[path], done=False)], path=path)
        read = content(pair["answers"][0], path)
        assert (read.prompt_tokens, read.completion_tokens, read.error) == (5, 7, None)

    run(test())
