"""Servers that do as a test says, and how a connection ends, by whichever side."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(
    serve: Serve, host: str = "127.0.0.1", port: int = 0, **options: Any
) -> AsyncIterator[int]:
    """Run `serve` for each connection, and close that when it returns or the other side left.  The port."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with until_left(writer):
                await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, port, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextmanager
def unheard() -> Iterator[int]:
    """A port on which nobody listens and that nobody else is given; who is told it may listen."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def until_left(writer: asyncio.StreamWriter) -> Iterator[None]:
    """What is done with a connection until the other side ends it.

    To write then is a ConnectionError, or, once the socket is closed, what uvloop says: a RuntimeError.
    """
    try:
        yield
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    except RuntimeError:
        if not writer.transport.is_closing():
            raise


def end_by_reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a real RST; what was sent before may still arrive."""
    sock = writer.get_extra_info("socket")
    if sock is not None:  # else the other side was first
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
