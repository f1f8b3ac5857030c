"""Every long answer dies after so many seconds although tokens keep coming: a limit on the whole request."""

import asyncio

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED, at_once, last_counts, number, numbered, told
from tests.support import (
    FINISH,
    LAST,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Peer,
    ask,
    chunk,
    event,
    json_answer,
    parse,
    running,
)
from tests.support_shared import run

# Every limit there is, far below what the answers take; they are looked at once a second.
LIMITS = LimitsSpec(idle_timeout_s=2.4, first_token_timeout_s=2.4, connect_timeout_s=2.4)
STEP_S, STEPS = 0.4, 9  # 3.6 s, never silent for longer than 0.4 s
SOME = json_answer(b"x" * STEPS)


async def tokens(peer: Peer) -> None:
    await peer.send(SSE_HEAD, event(ROLE))
    for _ in range(STEPS):
        await peer.send(event(TOKEN))
        await asyncio.sleep(STEP_S)
    await peer.send(event(FINISH), LAST)


async def pieces_of_events(peer: Peer) -> None:
    """A token, then an event so long that it takes all the time."""
    await peer.send(SSE_HEAD, event(TOKEN), chunk(b'data: {"x":"'))
    for _ in range(STEPS):
        await peer.send(chunk(b"x"))
        await asyncio.sleep(STEP_S)
    await peer.send(chunk(b'"}\n\n'), event(FINISH), LAST)


async def comments_after_a_token(peer: Peer) -> None:
    await peer.send(SSE_HEAD, event(TOKEN))
    for _ in range(STEPS):
        await peer.send(chunk(b": still here\n\n"))
        await asyncio.sleep(STEP_S)
    await peer.send(event(FINISH), LAST)


async def body_with_a_length(peer: Peer) -> None:
    await peer.send(SOME[:-STEPS])
    for at in range(len(SOME) - STEPS, len(SOME)):
        await peer.send(SOME[at : at + 1])
        await asyncio.sleep(STEP_S)


async def body_in_chunks(peer: Peer) -> None:
    await peer.send(SSE_HEAD.replace(b"text/event-stream", b"application/json"))
    for _ in range(STEPS):
        await peer.send(chunk(b"x"))
        await asyncio.sleep(STEP_S)
    await peer.send(LAST)


SCRIPTS = [tokens, pieces_of_events, comments_after_a_token, body_with_a_length, body_in_chunks]


async def ask_slowly(port: int, n: int) -> Answered:
    """A request whose body takes as long as the answers do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = numbered(n, NOT_STREAMED)
    head = request.index(b"\r\n\r\n") + 4
    writer.write(request[:head])
    for at in range(head, len(request), len(request) // STEPS):
        writer.write(request[at : at + len(request) // STEPS])
        await asyncio.sleep(STEP_S)
    raw = await asyncio.wait_for(reader.read(-1), 20)
    writer.close()
    return parse(raw)


async def ask_and_read_slowly(port: int, n: int) -> Answered:
    """A client that takes its time over a large answer, and never stops reading."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    writer.write(numbered(n))
    raw = b""
    while piece := await reader.read(1 << 18):
        raw += piece
        await asyncio.sleep(0.002)
    writer.close()
    return parse(raw)


def test_h11_total_timeout_there_is_none() -> None:
    """Streams, bodies, uploads and slow readers that last longer than every limit end well."""

    async def large(peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN))
        for _ in range(STEPS):
            await peer.send(chunk(b"data: " + b"x" * 1_000_000 + b"\n\n"))
            await asyncio.sleep(STEP_S)
        await peer.send(event(FINISH), LAST)

    async def quick(peer: Peer) -> None:
        await peer.send(json_answer(peer.body))

    scripts = [*SCRIPTS, quick, large]

    async def script(peer: Peer) -> None:
        await scripts[number(peer)](peer)

    async def test() -> None:
        async with running(Engine(script), limits=LIMITS) as gateway, told(gateway.run_dir) as heard:
            asked = [ask(gateway.port, numbered(n)) for n in range(len(SCRIPTS))]
            slow = ask_slowly(gateway.port, len(SCRIPTS)), ask_and_read_slowly(gateway.port, len(SCRIPTS) + 1)
            got = await at_once([*asked, *slow])
            assert [(one.status, one.is_whole) for one in got] == [(200, True)] * len(scripts)
            assert got[0].text.count(b"tok") == STEPS and got[2].text.count(b": still here") == STEPS
            assert got[3].body == got[4].text == b"x" * STEPS
            assert got[5].body == NOT_STREAMED and len(got[6].text) > STEPS * 1_000_000
            assert (await last_counts(gateway, heard)).get("complete") == len(scripts)

    run(test())
