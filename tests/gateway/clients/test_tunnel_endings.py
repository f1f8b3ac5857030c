"""How a tunnel comes to its end, or to none: slow or silent ends, engines that are gone, a stop."""

import asyncio
import hashlib
import random
from contextlib import AsyncExitStack

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.spec import CorsSpec, EngineSpec, FleetSpec, LimitsSpec
from tests.gateway.clients.test_tunnel import AGREED, asking, in_front_of, to
from tests.gateway.whole import begin
from tests.support import (
    FINISH,
    TOKEN,
    Engine,
    Gateway,
    Peer,
    answers,
    ask,
    json_answer,
    running,
    streams,
    until,
)
from tests.support_shared import echo, run


@pytest.mark.parametrize("reads_late", ["client", "engine"])
def test_a_slow_end_holds_up_the_other_and_nothing_is_lost(reads_late: str) -> None:
    """50 MB towards an end that does not read: little of it is taken, and all of it comes in the end."""

    async def go() -> None:
        size = 50 << 20
        block = random.Random(6).randbytes(1 << 20)
        expected = hashlib.sha256(block * 50).hexdigest()
        released = asyncio.Event()
        sent = 0

        async def pour(writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            for _ in range(50):
                writer.write(block)
                await writer.drain()
                sent += len(block)

        async def drink(reader: asyncio.StreamReader) -> str:
            await released.wait()
            digest, left = hashlib.sha256(), size
            while left:
                piece = await reader.read(1 << 16)
                assert piece
                digest.update(piece)
                left -= len(piece)
            return digest.hexdigest()

        got: list[str] = []

        async def script(peer: Peer) -> None:
            await peer.send(AGREED)
            if reads_late == "engine":
                got.append(await drink(peer.reader))
            else:
                await pour(peer.writer)
            await peer.reader.read()

        async with running(Engine(script)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(asking())
            await reader.readuntil(b"\r\n\r\n")
            pouring = asyncio.ensure_future(pour(writer)) if reads_late == "engine" else None  # noqa: TID251
            before = -1
            while sent != before:  # until nothing more is taken
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 30 << 20, "the gateway took it all"
            released.set()
            if pouring is None:
                got.append(await drink(reader))
            else:
                await asyncio.wait_for(pouring, 30)
                await until(lambda: bool(got), 30)
            assert got == [expected]
            writer.close()
            await until(lambda: gateway.inflight() == 0)

    run(go())


def test_an_end_that_takes_nothing_for_too_long_is_given_up_and_the_other_with_it() -> None:
    async def go() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(AGREED)
            try:
                while True:
                    peer.writer.write(b"x" * (1 << 20))
                    await peer.writer.drain()
            except ConnectionError:
                left.set()

        async with running(Engine(script), limits=LimitsSpec(idle_timeout_s=0.5, drain_s=1.0)) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1 << 12)
            writer.write(asking())
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.wait_for(left.wait(), 20)
            await until(lambda: gateway.inflight() == 0)
            writer.transport.abort()

    run(go())


def test_a_client_that_leaves_while_the_engine_thinks_frees_everything() -> None:
    async def go() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            if await peer.left():
                left.set()

        engine = Engine(script)
        async with running(engine) as gateway:
            for abrupt in (False, True):
                left.clear()
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(asking())
                await until(lambda: gateway.inflight() == 1)
                while len(engine.asked) <= abrupt:
                    await asyncio.sleep(0.01)
                writer.transport.abort() if abrupt else writer.close()
                await asyncio.wait_for(left.wait(), 30)
                await until(lambda: gateway.inflight() == 0)

    run(go())


def test_an_engine_that_is_not_there_is_passed_over_and_with_none_left_that_is_said() -> None:
    async def go() -> None:
        gone, there = Engine(answers(b"")), Engine(answers(AGREED))
        await gone.start()
        await gone.stop()
        await there.start()
        specs = (EngineSpec(0, gone.url, kind="vllm"), EngineSpec(1, there.url, kind="vllm"))
        for engines, status in ((specs, 101), (specs[:1], 503)):
            fleets = (FleetSpec(None, (), True, engines, "least_load"),)
            async with running(there, fleets=fleets) as gateway:
                for _ in range(4):
                    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                    writer.write(asking())
                    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
                    assert head.startswith(b"HTTP/1.1 %d " % status), head
                    assert status == 101 or b"Retry-After: " in head
                    writer.close()
                await until(lambda: gateway.inflight(0) == 0)
            await there.start()
        await there.stop()

    run(go())


def test_an_engine_that_never_answers_is_a_504() -> None:
    async def go() -> None:
        async def script(peer: Peer) -> None:
            await peer.left()

        cors = CorsSpec(("https://a.example",))
        limits = LimitsSpec(first_token_timeout_s=0.3, drain_s=1.0)
        async with running(Engine(script), limits=limits, cors=cors) as gateway:
            answered = await ask(gateway.port, asking("/v1/realtime", "Origin: https://a.example"))
            assert answered.status == 504 and gateway.inflight() == 0
            assert answered.header("access-control-allow-origin") == ["https://a.example"]

    run(go())


def test_a_stop_waits_for_tunnels_and_then_ends_them() -> None:
    async def go() -> None:
        limits = LimitsSpec(drain_s=1.5)
        async with (
            in_front_of(echo, limits=limits) as (gateway, _),
            to(gateway) as short,
            to(gateway) as long,
        ):
            gateway.stop.set()
            await short.send("a")
            assert await asyncio.wait_for(short.recv(), 30) == "a"
            await short.close()
            await long.send("b")
            assert await asyncio.wait_for(long.recv(), 30) == "b"
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(long.recv(), 30)
            assert long.close_code == 1006  # the library's word for an end without a close frame

    run(go())


def test_a_tunnel_whose_engine_is_taken_out_has_a_bounded_time() -> None:
    async def silent(peer: Peer) -> None:
        await peer.left()

    async def go() -> None:
        other = Engine(streams(TOKEN, FINISH))
        async with AsyncExitStack() as stack:
            await begin(stack, other)
            moved = (FleetSpec(None, (), True, (EngineSpec(1, other.url, kind="vllm"),), "least_load"),)
            limits = LimitsSpec(drain_s=2.0, leaving_s=0.5)
            async with in_front_of(echo, limits=limits) as (gateway, _), to(gateway) as tunnel:
                assert await gateway.renew(fleets=moved) is None
                await tunnel.send("a")
                assert await asyncio.wait_for(tunnel.recv(), 30) == "a"
                with pytest.raises(ConnectionClosed):
                    await asyncio.wait_for(tunnel.recv(), 30)
                assert tunnel.close_code == 1006
                await until(lambda: gateway.inflight(0) == 0)
            async with running(Engine(silent), limits=limits) as gateway:
                reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(asking())
                await until(lambda: gateway.inflight(0) == 1)
                assert await gateway.renew(fleets=moved) is None
                answer = await asyncio.wait_for(reader.read(), 30)
                assert answer.startswith(b"HTTP/1.1 503 ") and b"taken out" in answer
                await until(lambda: gateway.inflight(0) == 0)
                writer.close()

    run(go())


def test_many_tunnels_at_once_and_one_after_the_other() -> None:
    async def go() -> None:
        async def one(gateway: Gateway, n: int) -> None:
            async with to(gateway) as client:
                for at in range(5):
                    await client.send(f"{n} {at}")
                    assert await client.recv() == f"{n} {at}"

        async with in_front_of(echo) as (gateway, _):
            for _ in range(3):
                await asyncio.gather(*(one(gateway, n) for n in range(40)))
                await until(lambda: gateway.inflight() == 0)

    run(go())


def test_an_engine_behind_a_real_clients_error_is_told_as_it_is() -> None:
    async def go() -> None:
        async with running(Engine(answers(json_answer(b'{"error":{}}', "401 Unauthorized")))) as gateway:
            with pytest.raises(InvalidStatus) as refused:
                async with to(gateway):
                    pass
            assert refused.value.response.status_code == 401

    run(go())
