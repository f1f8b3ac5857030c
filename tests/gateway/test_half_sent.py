"""Clients that do not go on: half heads, half bodies, nothing at all, too many at once, gone unheard."""

import asyncio
import socket
import ssl
import struct
from pathlib import Path

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.connections import listening
from tests.support import (
    CHAT,
    FINISH,
    TOKEN,
    Engine,
    Peer,
    answers,
    ask,
    json_answer,
    parse,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import run
from tests.wire.certificates import Authority
from wire.tls import ServerTls

NOT_STREAMED = CHAT.replace(b"true", b"false")
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\n"
# Minutes at 1:100; what they are measured against is looked at once a second.
QUICK = LimitsSpec(head_timeout_s=0.1, keep_alive_s=0.75, body_timeout_s=0.2, drain_s=1)


async def dribbled(port: int, first: bytes, again: bytes, every_s: float = 0.05) -> bytes:
    """Send `first`, then `again` for ever; what is read until the other side ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(first)
    reading = asyncio.get_running_loop().create_task(reader.read())
    try:
        async with asyncio.timeout(20):
            while not reading.done():
                if again:
                    writer.write(again)
                await asyncio.sleep(every_s)
    finally:
        writer.transport.abort()
    try:
        return await reading
    except ConnectionResetError:
        return b"reset"


@pytest.mark.parametrize("again", [b"", b"a", b"X-A: b\r\n"], ids=["silent", "a byte", "a header"])
def test_a_head_that_does_not_come_whole_in_time_is_a_408(again: bytes) -> None:
    async def test() -> None:
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine, limits=QUICK) as gateway:
            got = parse(await dribbled(gateway.port, HEAD, again))
            assert got.status == 408 and got.header("connection") == ["close"] and b"head" in got.body
            assert not engine.asked

    run(test())


@pytest.mark.parametrize("again", [b"", b"a"], ids=["silent", "a byte"])
@pytest.mark.parametrize(
    ("framing", "start"),
    [(b"Content-Length: 100000", b"{"), (b"Transfer-Encoding: chunked", b"fffff\r\n{")],
    ids=["length", "chunks"],
)
def test_a_body_that_does_not_go_on_is_a_408(framing: bytes, start: bytes, again: bytes) -> None:
    async def test() -> None:
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine, limits=QUICK) as gateway:
            got = parse(await dribbled(gateway.port, HEAD + framing + b"\r\n\r\n" + start, again))
            assert got.status == 408 and got.header("connection") == ["close"] and b"body" in got.body
            assert not engine.asked

    run(test())


def test_a_body_that_is_with_an_engine_already_is_ended_too_and_frees_the_engine() -> None:
    async def test() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            if await peer.left():
                left.set()

        engine = Engine(script)
        async with running(
            engine, limits=LimitsSpec(read_bytes=1000, body_timeout_s=0.2, drain_s=1)
        ) as gateway:
            first = HEAD + b"Content-Length: 100000\r\n\r\n" + b"{" * 2000
            got = parse(await dribbled(gateway.port, first, b""))
            assert got.status == 408
            await until(lambda: gateway.inflight() == 0)

    run(test())


def test_a_body_that_comes_slowly_but_goes_on_is_served() -> None:
    async def test() -> None:
        limits = LimitsSpec(body_timeout_s=1.0, body_bytes_per_s=50, drain_s=1)
        async with running(Engine(answers(json_answer(b"{}"))), limits=limits) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            body = NOT_STREAMED + b" " * 2000
            writer.write(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
            for at in range(0, len(body), 50):
                writer.write(body[at : at + 50])
                await asyncio.sleep(0.08)  # 600 bytes a second, for several spans
            assert parse(await reader.read()).status == 200
            writer.close()

    run(test())


def test_a_body_an_engine_takes_slowly_is_not_the_clients_fault() -> None:
    async def test() -> None:
        go_on = asyncio.Event()
        body = b'{"model":"m","x":"' + b"A" * (16 << 20) + b'"}'

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                await go_on.wait()
                await reader.readexactly(len(body))
            writer.write(json_answer(b"{}"))

        limits = LimitsSpec(read_bytes=1 << 20, body_timeout_s=0.2, keep_alive_s=0.5, drain_s=1)
        async with (
            listening(serve) as engine,
            running(fleets=[one_engine(engine)], limits=limits) as gateway,
        ):
            asking = asyncio.get_running_loop().create_task(ask(gateway.port, post(body), 30))
            await asyncio.sleep(3.5)  # several looks, each of them many spans long
            assert not asking.done()
            go_on.set()
            assert (await asking).status == 200

    run(test())


def one_engine(port: int) -> FleetSpec:
    spec = EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm")
    return FleetSpec(None, (), True, (spec,), "least_load")


def connections() -> list[str]:
    return Path("/proc/net/tcp").read_text().splitlines()[1:]


async def is_held_back(client: socket.socket) -> bool:
    """Whether what `client` sent lies unread on the other side, and goes on lying."""
    ours, theirs = client.getsockname()[1], client.getpeername()[1]
    for _ in range(10):
        await asyncio.sleep(0.02)
        for line in connections():
            local, remote, _, queues = line.split()[1:5]
            if (int(local[-4:], 16), int(remote[-4:], 16)) == (theirs, ours):
                unread_bytes = int(queues.split(":")[1], 16)
        if unread_bytes == 0:
            return False
    return True


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc/net/tcp here")
@pytest.mark.parametrize("ending", ["fin", "reset"])
def test_a_client_that_leaves_while_its_upload_is_held_back_is_noticed(ending: str) -> None:
    async def test() -> None:
        left, done = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"POST"):
                writer.write(json_answer(b"{}"))
                return
            await left.wait()  # taking no more than a stream's buffer
            writer.transport.abort()
            done.set()

        limits = LimitsSpec(read_bytes=1 << 20, drain_s=1)
        async with (
            listening(serve, limit=1 << 10) as engine,
            running(fleets=[one_engine(engine)], limits=limits) as gateway,
        ):
            client = socket.create_connection(("127.0.0.1", gateway.port))
            client.settimeout(5)
            client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (64 << 20))
            while not await is_held_back(client):
                client.sendall(b"x" * (64 << 10))
            assert gateway.inflight() == 1
            if ending == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            await until(lambda: gateway.inflight() == 0, 30)
            left.set()
            await done.wait()

    run(test())


def test_a_connection_on_which_nothing_is_asked_is_closed_before_and_after_a_request() -> None:
    async def test() -> None:
        async with running(Engine(streams(TOKEN, FINISH)), limits=QUICK) as gateway:
            assert await dribbled(gateway.port, b"", b"") == b""
            got = parse(await dribbled(gateway.port, post(close=False), b""))
            assert got.status == 200 and got.is_whole

    run(test())


@pytest.mark.parametrize("again", [b"", b"\r\n"], ids=["once", "and again"])
def test_an_empty_line_between_requests_is_neither_a_beginning_nor_a_sign_of_life(again: bytes) -> None:
    """No 408 for it, and the connection is closed as an idle one."""

    async def test() -> None:
        limits = LimitsSpec(head_timeout_s=0.1, keep_alive_s=2.5, drain_s=1)
        async with running(Engine(answers(json_answer(b"{}"))), limits=limits) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post(NOT_STREAMED, close=False) + b"\r\n")
            assert parse(await reader.readuntil(b"\r\n\r\n{}")).status == 200
            answered = asyncio.get_running_loop().time()
            more = asyncio.get_running_loop().create_task(reader.read())
            async with asyncio.timeout(20):
                while not more.done():
                    writer.write(again)
                    await asyncio.sleep(0.05)
            (said,) = await asyncio.gather(more, return_exceptions=True)
            writer.transport.abort()
            # A line that meets the closing connection is answered with a reset.
            assert said == b"" or isinstance(said, ConnectionResetError), said
            assert asyncio.get_running_loop().time() - answered > 2

    run(test())


def test_a_long_answer_is_no_idleness() -> None:
    async def test() -> None:
        async def script(peer: Peer) -> None:
            await asyncio.sleep(2.5)
            await peer.send(json_answer(b"{}"))

        async with running(Engine(script), limits=QUICK) as gateway:
            assert (await ask(gateway.port, post(NOT_STREAMED))).status == 200

    run(test())


def test_more_clients_than_may_be_are_told_503_and_served_when_others_have_left() -> None:
    async def test() -> None:
        limits = LimitsSpec(connections=3, drain_s=1)
        async with running(Engine(streams(TOKEN, FINISH)), limits=limits) as gateway:
            held = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(3)]
            for _ in range(50):  # more than are heard out at once
                got = await ask(gateway.port, post())
                assert not got.raw or (got.status == 503 and got.header("retry-after") == ["1"])
            told = await ask(gateway.port, b"")
            for _, writer in held:
                writer.close()
            await served_again(gateway.port)
            assert told.status in (0, 503)

    run(test())


async def served_again(port: int) -> None:
    async with asyncio.timeout(30):
        while (await ask(port, post())).status != 200:
            await asyncio.sleep(0.05)


def test_more_connections_of_one_address_than_may_be_are_told_429_and_others_are_served() -> None:
    async def test() -> None:
        limits = LimitsSpec(connections_per_ip=2, drain_s=1)
        async with running(Engine(streams(TOKEN, FINISH)), limits=limits) as gateway:
            held = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(2)]
            got = await ask(gateway.port, b"")
            assert got.status == 429 and got.header("retry-after") == ["1"]
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", gateway.port, local_addr=("127.0.0.2", 0)
            )
            writer.write(post())
            assert parse(await reader.read()).status == 200
            writer.close()
            for _, writer in held:
                writer.close()
            await served_again(gateway.port)

    run(test())


def test_unfinished_bodies_together_are_bounded_and_the_largest_are_told_503() -> None:
    async def test() -> None:
        limits = LimitsSpec(uploads_bytes=1 << 20, drain_s=1)
        async with running(Engine(streams(TOKEN, FINISH)), limits=limits) as gateway:
            half = HEAD + b"Content-Length: 4000000\r\n\r\n" + b"x" * 700_000
            loop = asyncio.get_running_loop()
            large = [loop.create_task(dribbled(gateway.port, half, b"")) for _ in range(2)]
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post()[:-1])  # a small one, as unfinished as they are
            done, kept = await asyncio.wait(large, return_when=asyncio.FIRST_COMPLETED)
            got = parse(done.pop().result())
            assert got.status == 503 and got.header("retry-after") == ["1"]
            writer.write(post()[-1:])
            assert parse(await reader.read()).status == 200
            writer.close()
            for one in kept:
                one.cancel()
            assert len(kept) == 1

    run(test())


@pytest.mark.parametrize("over_tls", [False, True])
def test_clients_that_waste_what_they_can_leave_memory_flat_and_others_served(
    over_tls: bool, tmp_path: Path
) -> None:
    """Half heads, half bodies, readers of nothing and idlers, wave after wave."""

    async def test() -> None:
        async def script(peer: Peer) -> None:
            if b"flood" in peer.body:
                await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    await peer.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await streams(TOKEN, FINISH)(peer)

        context, tls = None, None
        if over_tls:
            authority = Authority(tmp_path)
            tls = ServerTls(*authority.sign("gw.test"))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(authority.file)
        flood = post(CHAT.replace(b"hi", b"flood"), close=False)
        wastes = [HEAD, HEAD + b"Content-Length: 90000\r\n\r\n" + b"x" * 50_000, flood, b""]
        name = "gw.test" if over_tls else None

        async def waste(port: int, said: bytes) -> asyncio.StreamWriter:
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, limit=1 << 12, ssl=context, server_hostname=name
            )
            writer.write(said)
            return writer

        async def good(port: int) -> None:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=name
            )
            writer.write(post())
            assert parse(await asyncio.wait_for(reader.read(), 20)).is_whole
            writer.close()

        limits = LimitsSpec(
            head_timeout_s=0.5, body_timeout_s=0.5, keep_alive_s=0.5, idle_timeout_s=0.5, drain_s=1
        )
        async with running(Engine(script), limits=limits, tls=tls) as gateway:
            resident = list[int]()
            for _ in range(4):
                writers = [await waste(gateway.port, wastes[n % 4]) for n in range(60)]
                for _ in range(5):
                    await good(gateway.port)
                await until(lambda: gateway.inflight() == 0, 20)
                for writer in writers:
                    writer.transport.abort()
                resident.append(_resident_bytes())
            assert resident[-1] - resident[1] < 64 << 20  # each wave's flood alone would be gigabytes

    run(test())


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    pytest.skip("no /proc here")
