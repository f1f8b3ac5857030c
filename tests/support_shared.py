"""What many tests share: how one is run, how engines misbehave, how clients leave, what was logged."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
import uvloop
from websockets.asyncio.server import ServerConnection

from tests.connections import end_by_reset
from tests.support import Peer

T = TypeVar("T")


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test on the loop the processes use."""
    uvloop.run(test)


def later(answer: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Go on with something beside the test."""
    return asyncio.get_running_loop().create_task(answer)


# How an engine misbehaves


async def hangs(peer: Peer) -> None:
    """Takes the request and never says a word."""
    await peer.left()


async def resets(peer: Peer) -> None:
    """Takes the request and is gone."""
    peer.reset()


# How a client leaves


def closes(writer: asyncio.StreamWriter) -> None:
    writer.close()


def half_closes(writer: asyncio.StreamWriter) -> None:
    """No more requests, and no sign that it still reads: as good as gone, for it may be."""
    writer.write_eof()


WAYS = {"closes": closes, "resets": end_by_reset, "half-closes": half_closes}


async def echo(connection: ServerConnection) -> None:
    """A WebSocket server that says everything again."""
    async for message in connection:
        await connection.send(message)


def access_lines(capfd: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """The access log's lines, by request id; no request has two."""
    found = [json.loads(x) for x in capfd.readouterr().err.splitlines() if x.startswith('{"event":"request"')]
    by_id = {line["request_id"]: line for line in found}
    assert len(by_id) == len(found)
    return by_id
