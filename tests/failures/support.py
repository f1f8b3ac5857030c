"""What the tests of the failure classes share: many requests at once, and what a worker tells of itself."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgpack

from tests.connections import end_by_reset
from tests.support import CHAT, Answered, Gateway, Peer, ask, post, until

T = TypeVar("T")

NOT_STREAMED = CHAT.replace(b"true", b"false")
PATH = "/v1/chat/completions"


async def at_once(things: Iterable[Coroutine[Any, Any, T]], most: int = 64) -> list[T]:
    """Run all of them, `most` at a time; the results in their order."""
    room = asyncio.Semaphore(most)

    async def one(thing: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await thing

    return await asyncio.gather(*(one(thing) for thing in things))


def numbered(n: int, body: bytes = CHAT, *extra: str, path: str = PATH, close: bool = True) -> bytes:
    """A request that says in its query which case it is."""
    return post(body, f"{path}?{n}", *extra, close=close)


def number(peer: Peer) -> int:
    """Which case a `numbered` request is."""
    return int(peer.line.partition("?")[2].split()[0])


async def ask_each(port: int, cases: int, body: bytes = CHAT, most: int = 64) -> list[Answered]:
    """Ask `cases` numbered requests at once; their answers in order."""
    return await at_once((ask(port, numbered(n, body)) for n in range(cases)), most)


def reset(peer: Peer) -> None:
    """End the connection with a real RST; what was sent before may still arrive."""
    end_by_reset(peer.writer)


def blocks(text: bytes) -> list[bytes]:
    """The complete events and comments of a stream whose lines end in LF, without their blank lines."""
    return text.split(b"\n\n")[:-1]


class Told:
    """What a worker told last about itself: its counts of requests by outcome, and its engines."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.is_connected = False

    @property
    def counts(self) -> dict[str, int]:
        return self.frames[-1]["counts"] if self.frames else {}

    @property
    def engines(self) -> list[dict[str, Any]]:
        return self.frames[-1]["engines"] if self.frames else []


@asynccontextmanager
async def told(run_dir: Path) -> AsyncIterator[Told]:
    """Listen where the analysis process would: a worker tells its status there once a second."""
    heard = Told()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.is_connected = True
        unpacker = msgpack.Unpacker(max_buffer_size=1 << 28)
        try:
            while data := await reader.read(1 << 16):
                unpacker.feed(data)
                heard.frames += [fields for kind, fields in unpacker if kind == "status"]
        except OSError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_unix_server(serve, str(run_dir / "observations.sock"))
    try:
        yield heard
    finally:
        server.close()


async def last_counts(gateway: Gateway, heard: Told) -> dict[str, int]:
    """Stop a gateway that is `told` of and has no more to do: the counts it tells then, not at a tick."""
    await until(lambda: heard.is_connected)
    gateway.stop.set()
    await until(lambda: bool(heard.frames) and bool(heard.frames[-1]["draining"]))
    return heard.counts
