"""A scripted engine and a WebSocket server on a thread of their own, so that blocking clients can be used."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from threading import Thread
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from tests.support import SSE_HEAD, Engine, Peer, Script, answers, chunk, event, json_answer


@dataclass(frozen=True)
class Scripted:
    """`engine` answers by its `script`, which each test sets; `realtime` is a WebSocket server's URL."""

    engine: Engine
    realtime: str


@contextmanager
def scripted() -> Iterator[Scripted]:
    """Both, until the block ends."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="scripted engines")
    thread.start()
    stack = AsyncExitStack()
    try:
        yield asyncio.run_coroutine_threadsafe(_start(stack), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(10)
        asyncio.run_coroutine_threadsafe(_rest(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _start(stack: AsyncExitStack) -> Scripted:
    engine = Engine(answers(json_answer(b"{}")))
    stack.push_async_callback(engine.stop)
    await engine.start()
    server = await stack.enter_async_context(serve(_converse, "127.0.0.1", 0, process_request=_probed))
    port = next(iter(server.sockets)).getsockname()[1]
    return Scripted(engine, f"http://127.0.0.1:{port}")


async def _rest() -> None:
    """Let what still runs end."""
    mine = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not mine]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()


def _probed(connection: ServerConnection, request: Request) -> Response | None:
    if request.path.startswith("/v1/realtime"):
        return None
    answer = connection.respond(HTTPStatus.OK, '{"object":"list","data":[{"id":"spoken","object":"model"}]}')
    answer.headers["content-type"] = "application/json"
    return answer


async def _converse(connection: ServerConnection) -> None:
    """Say a session has begun; answer each response.create by three words."""
    assert connection.request is not None
    session = {"type": "realtime", "id": "sess_1", "asked": connection.request.path}
    await connection.send(json.dumps({"type": "session.created", "event_id": "e0", "session": session}))
    async for message in connection:
        if json.loads(message)["type"] != "response.create":
            continue
        for word in ("one ", "two ", "three"):
            said: dict[str, Any] = {"type": "response.output_text.delta", "event_id": "e1", "delta": word}
            await connection.send(json.dumps(said))
        done = {"type": "response.done", "event_id": "e2", "response": {"id": "resp_1", "output": []}}
        await connection.send(json.dumps(done))


def in_turn(*scripts: Script) -> Script:
    """A script that answers the first request by the first of these, and so on; the last stays."""
    left = list(scripts)

    async def script(peer: Peer) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(peer)

    return script


def cut_after(*payloads: str, half: str = "") -> Script:
    """A script that streams these events, then the beginning of one more, and is gone."""

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, *map(event, payloads))
        if half:
            await peer.send(chunk(half.encode()))
        peer.reset()

    return script


@dataclass
class Silent:
    """A script that streams these events and then nothing; `left` once the gateway has gone away."""

    payloads: tuple[str, ...] = ()
    left: bool = False

    async def __call__(self, peer: Peer) -> None:
        if self.payloads:
            await peer.send(SSE_HEAD, *map(event, self.payloads))
        self.left = await peer.left()
        peer.close()
