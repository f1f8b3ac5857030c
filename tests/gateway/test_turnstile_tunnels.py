"""A WebSocket asks like any request, and holds nothing once it has ended."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.admission.staging import key, spec
from tests.connections import listening
from tests.gateway.test_turnstile import ANYBODY, HANDSHAKE, ROOM, is_empty, waiting
from tests.support import (
    json_answer,
    read_request,
    running,
    until,
)
from tests.support_shared import echo, run


def test_a_websocket_asks_like_any_request_and_its_key_is_not_told_to_the_engine() -> None:
    async def test() -> None:
        offered: list[list[str]] = []

        def choose(connection: ServerConnection, given: Any) -> Subprotocol | None:
            assert connection.request is not None
            offered.append(
                [value for name, value in connection.request.headers.raw_items() if "sl-ann" in value]
            )
            return Subprotocol("realtime") if "realtime" in given else None

        async with serve(
            echo, "127.0.0.1", 0, subprotocols=[Subprotocol("realtime")], select_subprotocol=choose
        ) as s:
            port = next(iter(s.sockets)).getsockname()[1]
            told = EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm", concurrency=1)
            fleets = (FleetSpec(None, (), True, (told,), "least_load"),)
            once = spec((key("ann", 0, concurrency=2), key("rob", 1)), ROOM, queue_wait_s=0.3)
            async with running(fleets=fleets, admission=once) as gateway:
                url = f"ws://127.0.0.1:{gateway.port}/v1/realtime?model=m"
                browser = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.sl-ann")]
                async with connect(url, subprotocols=browser, proxy=None) as one:
                    await one.send("hello")
                    assert await one.recv() == "hello" and one.subprotocol == "realtime"
                    with pytest.raises(InvalidStatus) as waited:  # for the engine's only place, too long
                        await connect(url, additional_headers={"x-api-key": "sl-rob"}, proxy=None)
                    assert waited.value.response.status_code == 503
                    assert int(waited.value.response.headers["retry-after"]) >= 1

                    async def second() -> str:
                        bearer = {"Authorization": "Bearer sl-rob"}
                        async with connect(url, additional_headers=bearer, proxy=None) as two:
                            await two.send("again")
                            return str(await two.recv())

                    waits = asyncio.get_running_loop().create_task(second())
                    await until(lambda: waiting(gateway) == 1)
                    await one.close()
                    assert await waits == "again"
                await until(lambda: is_empty(gateway))
                assert offered == [[], []]

    run(test())


@pytest.mark.parametrize(
    "how", ["refuses", "is not there", "client leaves", "client leaves the queue", "stop"]
)
def test_however_a_websocket_ends_it_holds_nothing_any_more(how: str) -> None:
    async def test() -> None:
        asked = asyncio.Event()

        async def handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = await read_request(reader, writer)
            assert peer is not None
            if peer.line.startswith("GET /v1/realtime"):
                asked.set()
                if how == "refuses":
                    await peer.send(json_answer(b"{}", "403 Forbidden"))
                else:
                    await peer.left()

        there = AsyncExitStack()
        port = await there.enter_async_context(listening(handshake))
        told = EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm", concurrency=1)
        fleets = (FleetSpec(None, (), True, (told,), "least_load"),)
        if how == "is not there":
            await there.aclose()
        limits = LimitsSpec(drain_s=0.2)
        async with there, running(fleets=fleets, limits=limits, admission=spec((ANYBODY,), ROOM)) as gateway:
            _, one = await asyncio.open_connection("127.0.0.1", gateway.port)
            one.write(HANDSHAKE)
            if how != "is not there":
                await asyncio.wait_for(asked.wait(), 30)
            if how == "client leaves the queue":
                _, two = await asyncio.open_connection("127.0.0.1", gateway.port)
                two.write(HANDSHAKE)
                await until(lambda: waiting(gateway) == 1)
                two.close()
                await until(lambda: waiting(gateway) == 0)
            if how.startswith("client"):
                one.close()
            if how == "stop":
                gateway.stop.set()
            await until(lambda: is_empty(gateway))
            one.close()

    run(test())
