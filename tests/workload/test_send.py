"""The sender takes turns with the answers it was given, and counts every way a request ends."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from workload.prompts import Conversation, Turn
from workload.send import Outcome, Sender, streamed_text

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
THREE_TURNS = Conversation("be brief", (Turn("one", 8), Turn("two", 8), Turn("three", 8)), temperature=0.7)


def event(content: str) -> bytes:
    return (
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]}).encode() + b"\n\n"
    )


async def stream(request: web.Request, pieces: list[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
        await asyncio.sleep(0)
    return response


@asynccontextmanager
async def sender_to(handler: Handler, **settings: Any) -> AsyncIterator[Sender]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession() as session:
            yield Sender(session, f"http://{host}:{port}", "m", clock=time.monotonic, **settings)
    finally:
        await runner.cleanup()


def test_each_turn_carries_the_answers_given_before() -> None:
    histories: list[list[dict[str, str]]] = []
    temperatures: list[float] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        histories.append(body["messages"])
        temperatures.append(body["temperature"])
        said = f'"{len(histories)}" é\n😀'
        return await stream(request, [event(""), *map(event, said), b"data: [DONE]\n\n"])

    async def scenario() -> None:
        async with sender_to(answer) as sender:
            answers = await sender.converse(THREE_TURNS)
            assert [given.text for given in answers] == [f'"{number}" é\n😀' for number in (1, 2, 3)]
            assert all(given.ttft_s is not None and given.ttft_s <= given.e2e_s for given in answers)
            assert sender.tally.outcomes == {Outcome.OK: 3}
        assert temperatures == [THREE_TURNS.temperature] * 3
        roles = [[message["role"] for message in history] for history in histories]
        assert roles == [["system", *["user", "assistant"] * turn, "user"] for turn in range(3)]
        assert histories[2][:4] == [*histories[1]] and histories[2][4]["content"] == '"2" é\n😀'

    asyncio.run(scenario())


async def busy(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "full"}}, status=503)


async def cut(request: web.Request) -> web.StreamResponse:
    response = await stream(request, [event("half")])
    assert request.transport is not None
    request.transport.abort()
    return response


async def unfinished(request: web.Request) -> web.StreamResponse:
    return await stream(request, [event("half")])


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "outcome"),
    [(busy, Outcome.STATUS), (cut, Outcome.CUT), (unfinished, Outcome.CUT), (silent, Outcome.TIMEOUT)],
)
def test_a_request_that_ends_badly_is_counted_and_ends_its_conversation(
    handler: Handler, outcome: Outcome
) -> None:
    async def scenario() -> None:
        async with sender_to(handler, timeout_s=0.3) as sender:
            (answer,) = await sender.converse(THREE_TURNS)
            assert answer.outcome is outcome and answer.text == ""
            assert sender.tally.outcomes == {outcome: 1} and sender.tally.failed == 1
            assert sender.tally.e2e_s == []

    asyncio.run(scenario())


def test_nobody_listening_is_counted_as_refused() -> None:
    async def scenario() -> None:
        with socket.socket() as unheard:  # bound, so that nobody else gets the port, and never listening
            unheard.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
            async with aiohttp.ClientSession() as session:
                sender = Sender(session, url, "m", clock=time.monotonic)
                (answer,) = await sender.converse(THREE_TURNS)
            assert answer.outcome is Outcome.REFUSED

    asyncio.run(scenario())


async def brief(request: web.Request) -> web.StreamResponse:
    return await stream(request, [event("yes"), b"data: [DONE]\n\n"])


def test_a_finite_workload_ends_when_its_last_conversation_does() -> None:
    async def scenario() -> None:
        async with sender_to(brief) as sender:
            tally = await sender.send([(0.0, THREE_TURNS)] * 5, until_s=20.0)
            assert (tally.conversations, tally.requests, tally.outcomes[Outcome.OK]) == (5, 15, 15)

    asyncio.run(scenario())


def test_the_deadline_ends_an_endless_workload_and_leaves_no_task() -> None:
    async def scenario() -> None:
        async with sender_to(silent) as sender:
            endless = ((0.001 * number, THREE_TURNS) for number in range(10**9))
            tally = await sender.send(endless, until_s=0.2)
            assert tally.conversations > 0 and tally.outcomes == {}
            assert [
                task.get_name() for task in asyncio.all_tasks() if task.get_name() == "conversation"
            ] == []

    asyncio.run(scenario())


def test_arrivals_beyond_the_bound_are_shed_and_counted_not_delayed() -> None:
    async def scenario() -> None:
        async with sender_to(silent, most_open=3) as sender:
            tally = await sender.send([(0.0, THREE_TURNS)] * 10, until_s=0.2)
            assert (tally.conversations, tally.shed) == (3, 7)

    asyncio.run(scenario())


def test_text_is_read_out_of_a_stream_whatever_it_contains() -> None:
    text = 'a "content":"b" \\ \n {"content": "c"} \ud83d\ude00'
    stream_bytes = event("") + b"".join(event(part) for part in (text, "", "end")) + b'data: {"usage":{}}\n\n'
    assert streamed_text(stream_bytes) == json.loads(json.dumps(text)) + "end"
    assert streamed_text(b'data: {"delta":{"reasoning_content":"no","content":"yes"}}\n\n') == "yes"
