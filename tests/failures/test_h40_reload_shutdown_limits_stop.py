"""H40 reload-shutdown-limits: a stop is told before, finishes what it can, and ends the rest visibly."""

import asyncio
import json
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

from gateway.spec import LimitsSpec
from tests.failures.test_h40_reload_shutdown_limits import SLOW, STREAMS, Slow, settings, slow_streams
from tests.gateway.whole import begin, serving, with_engines
from tests.support import (
    Engine,
    Gateway,
    Peer,
    ask,
    post,
    running,
    until,
)
from tests.support_shared import later


def test_at_a_stop_it_is_not_ready_at_once_serves_on_for_the_delay_and_finishes_what_runs(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        slow = Slow()
        await begin(stack, slow.engine)
        limits = {"drain_delay_s": 6, "drain_s": 30}
        async with serving(tmp_path, settings(slow.engine, limits=limits)) as whole:
            asked = await slow_streams(slow, whole.port)
            kept_reader, kept_writer = await asyncio.open_connection("127.0.0.1", whole.port)
            whole.kill(signal.SIGTERM)
            asks_health = b"GET /health HTTP/1.1\r\nHost: g\r\n%b\r\n"
            async with asyncio.timeout(5):
                while (await ask(whole.port, asks_health % b"Connection: close\r\n")).status != 503:
                    pass
            health = await ask(whole.port, asks_health % b"")
            assert health.status == 503
            assert health.header("retry-after") and health.header("connection") == ["close"]
            async with whole.http.get(whole.admin + "/readyz") as answer:
                assert answer.status == 503
            served = await ask(whole.port, post(close=False))  # a new connection is taken, and told to close
            assert served.status == 200 and served.is_whole and served.header("connection") == ["close"]
            kept_writer.write(post(close=False))  # as are those that were open
            text = await asyncio.wait_for(kept_reader.read(), 30)
            assert b"[DONE]" in text and b"connection: close" in text.lower()
            kept_writer.close()
            async with asyncio.timeout(30):
                while True:
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", whole.port)
                    except ConnectionError:
                        break
                    writer.close()
                    await asyncio.sleep(0.1)
            assert whole.process.returncode is None
            slow.go_on.set()
            for done in await asyncio.gather(*asked):
                assert done.status == 200 and done.is_whole and done.text.endswith(b"[DONE]\n\n")
            assert await whole.ended() == 0

    with_engines(test)


def test_streams_that_outlast_the_stop_end_in_an_error_event_and_never_cleanly() -> None:
    async def test(stack: AsyncExitStack) -> None:
        slow = Slow()
        await begin(stack, slow.engine)
        async with running(slow.engine, limits=LimitsSpec(drain_s=0.5)) as gateway:
            asked = await slow_streams(slow, gateway.port)
            old = later(ask(gateway.port, post(SLOW).replace(b"HTTP/1.1", b"HTTP/1.0"), 60))
            await until(lambda: slow.waiting == STREAMS + 1)
            gateway.stop.set()
            for answer in await asyncio.gather(*asked):
                assert answer.status == 200 and not answer.is_whole
                error = json.loads(answer.text.rpartition(b"data: ")[2])["error"]
                assert (error["type"], error["code"]) == ("upstream_cut", 502)
                assert "the gateway stopped" in error["message"]
            assert b"[DONE]" not in (await old).body
            assert gateway.inflight() == 0

    with_engines(test)


def test_a_request_without_an_answer_yet_is_told_503_at_the_end_of_the_stop() -> None:
    async def test(stack: AsyncExitStack) -> None:
        never = asyncio.Event()

        async def silent(peer: Peer) -> None:
            await never.wait()

        engine, other = Engine(silent), Engine(silent)
        async with running(engine, other, limits=LimitsSpec(drain_s=0.5)) as gateway:
            asked = [later(ask(gateway.port, post())) for _ in range(STREAMS)]
            await until(lambda: len(engine.asked) + len(other.asked) == STREAMS)
            gateway.stop.set()
            for answer in await asyncio.gather(*asked):
                assert answer.status == 503 and answer.header("retry-after")
            assert len(engine.asked) + len(other.asked) == STREAMS  # none was sent to another engine now
            never.set()

    with_engines(test)


def test_answers_still_being_read_at_the_stop_are_not_cut_short() -> None:
    """Of answers of many sizes some are whole in the gateway and not yet taken by their slow clients: their
    connections close behind them, not through them."""
    sizes = range(100_000, 6_000_000, 150_000)

    async def test(stack: AsyncExitStack) -> None:
        async def large(peer: Peer) -> None:
            size = json.loads(peer.body)["size"]
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % size
            await peer.send(head, b"x" * size)

        engine = Engine(large)

        async def slowly(gateway: Gateway, size: int, stopped: asyncio.Event) -> int:
            narrow = socket.socket()
            narrow.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15
            )  # little of it waits in the kernel
            narrow.setblocking(False)
            await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", gateway.port))
            reader, writer = await asyncio.open_connection(sock=narrow, limit=1 << 14)
            writer.write(post(b'{"model":"m","input":"x","size":%d}' % size, "/v1/embeddings", close=False))
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            await stopped.wait()
            await asyncio.sleep(0.5)
            got = 0
            while piece := await asyncio.wait_for(reader.read(1 << 16), 20):
                got += len(piece)
            writer.close()
            return got

        async with running(engine, limits=LimitsSpec(drain_s=20.0)) as gateway:
            stopped = asyncio.Event()
            clients = asyncio.gather(*(slowly(gateway, size, stopped) for size in sizes))
            await until(lambda: len(engine.asked) == len(sizes))
            await asyncio.sleep(0.5)
            gateway.stop.set()
            stopped.set()
            assert await clients == list(sizes)

    with_engines(test)


def test_a_second_signal_ends_streams_at_once(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        slow = Slow()
        await begin(stack, slow.engine)
        async with serving(tmp_path, settings(slow.engine, limits={"drain_s": 600})) as whole:
            asked = await slow_streams(slow, whole.port)
            whole.kill(signal.SIGTERM)
            async with asyncio.timeout(20):
                while "draining" not in whole.log:
                    await asyncio.sleep(0.05)
            whole.kill(signal.SIGTERM)
            assert await whole.ended(20) in (0, 1)
            assert not any(answer.is_whole for answer in await asyncio.gather(*asked))

    with_engines(test)
