"""A connection or request that is over is gone at once: nothing of ours waits for the garbage collector.

What waits is memory that grows with traffic until a collection, and then a pause.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvloop

from gateway.service import Service
from gateway.spec import LimitsSpec, RoomSpec, SamplingSpec
from tests.admission.staging import spec
from tests.support import (
    CHAT,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    answers,
    ask,
    event,
    json_answer,
    post,
    running,
    streams,
    until,
)  # fmt: skip
from tests.support_shared import resets

OURS = ("gateway.", "wire.", "routing.", "mirror.", "httptools.")
MANY = 5
AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)


@contextmanager
def uncollected() -> Iterator[Counter[str]]:
    """What only a collection would have freed."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = (f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
        found.update(kind for kind in kinds if kind.startswith(OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def cut(peer: Peer) -> None:
    await peer.send(SSE_HEAD, event(TOKEN))
    peer.reset()


async def whole(port: int) -> None:
    await ask(port, post())


async def large(port: int) -> None:
    await ask(port, post(CHAT[:-1] + b',"x":"' + b"x" * 300_000 + b'"}'))


async def malformed(port: int) -> None:
    await ask(port, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")


async def refused(port: int) -> None:
    await ask(port, b"GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")


async def gone(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(post())
    await reader.readuntil(TOKEN.encode())
    writer.transport.abort()


async def tunnel(port: int) -> None:
    fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    fields += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    asked = f"GET /v1/realtime?model=m HTTP/1.1\r\nHost: g\r\n{fields}\r\n"
    assert (await ask(port, asked.encode())).status == 101


async def endless(peer: Peer) -> None:
    await peer.send(SSE_HEAD, event(TOKEN))
    await peer.left()


async def agrees(peer: Peer) -> None:
    await peer.send(AGREED, b"\x81\x01x")
    peer.close()


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "limited"])
@pytest.mark.parametrize(
    ("script", "client"),
    [
        (answers(json_answer(b"{}")), whole),
        (answers(json_answer(b"{}")), large),
        (answers(json_answer(b"{}", "503 Busy")), whole),
        (streams(TOKEN), whole),
        (cut, whole),
        (resets, whole),
        (answers(b"no HTTP\r\n\r\n"), whole),
        (answers(json_answer(b"{}")), malformed),
        (answers(json_answer(b"{}")), refused),
        (endless, gone),
        (agrees, tunnel),
    ],
    ids=[
        "json", "body that goes by", "busy", "stream", "cut", "dead", "garbage", "malformed", "refused",
        "client gone", "WebSocket",
    ],
)  # fmt: skip
def test_what_is_over_needs_no_collection(
    script: Callable[[Peer], Awaitable[None]], client: Callable[[int], Awaitable[None]], limited: bool
) -> None:
    """`limited`: with admission, where the second of two at a time waits, and copied."""
    more: dict[str, Any] = {"limits": LimitsSpec(read_bytes=4096, drain_s=5)}
    if limited:
        more["admission"] = spec(rooms=[RoomSpec(None, concurrency=1)])
        more["experiments"] = [SamplingSpec("fp8-kv", None, 1.0, b"salt")]

    async def go() -> None:
        async with running(Engine(script), **more) as gateway:
            await client(gateway.port)  # what is made once
            with uncollected() as found:
                for _ in range(MANY):
                    await asyncio.gather(client(gateway.port), client(gateway.port))
                await until(all_gone)
            assert {kind: n for kind, n in found.items() if n >= MANY} == {}

    uvloop.run(go())


def all_gone() -> bool:
    return not any(one.connections for one in gc.get_objects() if type(one) is Service)
