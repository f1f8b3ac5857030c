"""Streams that end well without [DONE] are refused, and streams that just stop are given one."""

import asyncio
from itertools import product

import pytest

from gateway.outcome import Outcome, outcome
from gateway.tail import Tail
from tests.failures.support import ask_each, last_counts, number, told
from tests.support import FINISH, LAST, ROLE, SSE_HEAD, TOKEN, Engine, Peer, chunk, running
from tests.support_shared import run
from wire.exchange import Ending

# Streams of each protocol: what they say, and how they say why they stopped.
PROTOCOLS: dict[str, tuple[list[str], list[str]]] = {
    "chat": ([ROLE, TOKEN], [FINISH]),
    "chat, with its last token": ([ROLE], [TOKEN.replace("}}]", '},"finish_reason":"length"}]')]),
    "chat, tool calls": ([ROLE], [FINISH.replace('"stop"', '"tool_calls"')]),
    "chat, with usage after it": ([TOKEN], [FINISH, '{"choices":[],"usage":{"completion_tokens":1}}']),
    "completions": (
        ['{"choices":[{"index":0,"text":"t","finish_reason":null}]}'],
        ['{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}'],
    ),
    "responses": (
        ['{"type":"response.output_text.delta","delta":"t"}'],
        ['{"type":"response.completed","response":{"status":"completed"}}'],
    ),
    "responses, at the limit": (
        ['{"type":"response.output_text.delta","delta":"t"}'],
        ['{"type":"response.incomplete","response":{"status":"incomplete"}}'],
    ),
    "messages": (
        ['{"type":"content_block_delta","delta":{"type":"text_delta","text":"t"}}'],
        ['{"type":"message_delta","delta":{"stop_reason":"end_turn"}}', '{"type":"message_stop"}'],
    ),
    "llama.cpp": (['{"content":"t","stop":false}'], ['{"content":"","stop":true,"stop_type":"eos"}']),
    "sglang": (
        ['{"text":"t","meta_info":{"finish_reason":null}}'],
        ['{"text":"tt","meta_info":{"finish_reason":{"type":"length","length":2}}}'],
    ),
    "tgi": (
        ['{"token":{"id":1,"text":"t"},"generated_text":null,"details":null}'],
        ['{"token":{"id":2,"text":"t"},"generated_text":"tt","details":{"finish_reason":"length"}}'],
    ),
}
HEADS = {
    "chunks": SSE_HEAD,
    "a length": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n",
    "the connection's end": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
}
CASES = list(product(PROTOCOLS, HEADS, (True, False), (True, False)))


def sent(case: int) -> list[bytes]:
    protocol, _, finishes, done = CASES[case]
    says, ends = PROTOCOLS[protocol]
    payloads = [*says, *(ends if finishes else ()), *(["[DONE]"] if done else ())]
    return [b"data: %b\n\n" % payload.encode() for payload in payloads]


def test_h09_no_done_is_relayed_as_it_is_and_called_what_it_is() -> None:
    """With a reason or [DONE] complete, with neither truncated; nothing is added, in no framing."""

    async def script(peer: Peer) -> None:
        case = number(peer)
        framing, events = CASES[case][1], sent(case)
        head = HEADS[framing]
        await peer.send(head % len(b"".join(events)) if framing == "a length" else head)
        for one in events:
            await peer.send(chunk(one) if framing == "chunks" else one)
        if framing == "chunks":
            await peer.send(LAST)
        elif framing == "the connection's end":
            peer.close()

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            for case, got in enumerate(await ask_each(gateway.port, len(CASES))):
                assert (got.status, got.is_whole, got.text) == (200, True, b"".join(sent(case))), CASES[case]
            truncated = sum(not finishes and not done for _, _, finishes, done in CASES)
            assert (await last_counts(gateway, heard)).get("requests") == len(CASES)
            assert heard.counts.get("truncated") == truncated, heard.counts
            assert heard.counts.get("complete") == len(CASES) - truncated

    run(test())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_h09_no_done_each_protocol_by_itself(protocol: str) -> None:
    """So that a protocol whose endings are not known is named by the test that fails."""
    says, ends = ([payload.encode() for payload in part] for part in PROTOCOLS[protocol])
    stream = Tail()
    for part in says:
        stream.add(part)
    assert outcome(Ending.COMPLETE, 200, stream) is Outcome.TRUNCATED
    for part in ends:
        stream.add(part)
    assert outcome(Ending.COMPLETE, 200, stream) is Outcome.COMPLETE


NO_ENDS = [
    TOKEN.replace("tok", r"data: [DONE]"),
    TOKEN.replace("tok", r"\n\ndata: [DONE]\n\n"),
    TOKEN.replace("tok", r"message_stop, response.completed"),
    TOKEN.replace("tok", r"{\"finish_reason\": \"stop\"}"),
    TOKEN.replace("tok", r"\"stop\":true"),
    TOKEN.replace("}}]", '},"finish_reason":null}]'),
    TOKEN.replace("}}]", '},"finish_reason":""}]'),
]


def test_h09_no_done_what_a_text_says_is_no_end() -> None:
    """A truncated answer that talks about ends is truncated; an empty reason is none."""

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, chunk(b"data: " + NO_ENDS[number(peer)].encode() + b"\n\n"), LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            await ask_each(gateway.port, len(NO_ENDS))
            assert (await last_counts(gateway, heard)).get("requests") == len(NO_ENDS)
            assert heard.counts.get("truncated") == len(NO_ENDS), heard.counts

    run(test())


def test_h09_no_done_a_reason_holds_however_many_reads_follow_it() -> None:
    """Comments, usage and empty chunks after the reason do not make an answer a truncated one."""
    more = [b": ping\n\n", b'data: {"choices":[],"usage":{"completion_tokens":1}}\n\n', b"\n"]

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, chunk(f"data: {TOKEN}\n\ndata: {FINISH}\n\n".encode()))
        for _ in range(1 + 4 * (number(peer) % 4)):
            await asyncio.sleep(0.005)
            await peer.send(chunk(more[number(peer) % 3]))
        await peer.send(LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            await ask_each(gateway.port, 12)
            assert (await last_counts(gateway, heard)).get("requests") == 12
            assert heard.counts.get("complete") == 12, heard.counts

    run(test())
