"""The client leaves before the engine said a word: the prefill goes on for nobody, at each reload anew."""

import asyncio
from itertools import product

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.connections import listening
from tests.failures.support import at_once, last_counts, number, numbered, told
from tests.support import SSE_HEAD, Engine, Peer, chunk, post, running, until
from tests.support_shared import WAYS, run

# What the engine has sent when the client leaves: nothing of an answer, whatever its first bytes.
SAID = {
    "nothing": b"",
    "an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    "half a head": SSE_HEAD[:30],
    "a head": SSE_HEAD,
    "a comment": SSE_HEAD + chunk(b": thinking\n\n"),
    "half an event": SSE_HEAD + chunk(b"data: {"),
}
# What the client has sent besides its request.
MORE = {
    "no more": b"",
    "a pipelined request": numbered(0, close=False),
    "half a pipelined request": numbered(0)[:30],
    "some pipelined requests": numbered(0, close=False) * 4,
    "more of them than are read while one waits": numbered(0, close=False) * 40,
    "more of them than are read at once": numbered(0, close=False) * 400,
}


def test_h13_gone_while_prefill_the_engine_stops_working() -> None:
    """However the client leaves, whatever it sent besides, whatever the engine had said."""
    cases = list(product(WAYS, SAID, MORE))

    async def test() -> None:
        waiting: set[int] = set()
        gone: set[int] = set()
        still_there: list[tuple[str, ...]] = []

        async def script(peer: Peer) -> None:
            case = number(peer)
            await peer.send(SAID[cases[case][1]])
            waiting.add(case)
            if await peer.left():
                gone.add(case)

        async def one(case: int) -> None:
            way, _, more = cases[case]
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(numbered(case, close=False) + MORE[more])
            await until(lambda: case in waiting)
            WAYS[way](writer)
            try:
                await until(lambda: case in gone, 30)
            except TimeoutError:
                still_there.append(cases[case])
            finally:
                writer.close()

        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            await at_once((one(case) for case in range(len(cases))), 100)
            assert still_there == []
            await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0), 30)
            assert gone == set(range(len(cases)))
            assert (await last_counts(gateway, heard)).get("client_gone") == len(cases)
            assert heard.counts["requests"] == len(cases)  # and no engine's failure among them
            assert [engine["up"] for engine in heard.engines] == [True]

    run(test())


def test_h13_gone_while_prefill_a_request_that_never_became_whole_reaches_no_engine() -> None:
    """Cut off at every byte of it, in every way."""

    async def test() -> None:
        async def script(peer: Peer) -> None:
            raise AssertionError("asked")

        engine = Engine(script)
        request = post(close=False)

        async def one(way: str, size: int) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(request[:size])
            await asyncio.sleep(0.01)
            WAYS[way](writer)
            writer.close()

        async with running(engine) as gateway, told(gateway.run_dir) as heard:
            await at_once(one(way, size) for way in WAYS for size in range(len(request)))
            await until(lambda: bool(heard.frames) and heard.frames[-1]["connections"] == 0)
            assert not engine.asked and gateway.loads.totals(0) == (0, 0, 0, 0)

    run(test())


@pytest.mark.parametrize("way", WAYS)
def test_h13_gone_while_prefill_an_upload_that_went_by_is_given_up(way: str) -> None:
    """The engine has part of a body that will never be whole: its connection ends too."""

    async def test() -> None:
        came, ended = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            data = await reader.read(1 << 16)
            if data.startswith(b"GET "):  # a probe
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                came.set()
                try:
                    while await reader.read(1 << 16):
                        pass
                except ConnectionError:
                    pass
                ended.set()

        async with listening(serve) as port:
            spec = EngineSpec(0, f"http://127.0.0.1:{port}", kind="vllm")
            fleets = [FleetSpec(None, (), True, (spec,), "least_load")]
            async with running(fleets=fleets, limits=LimitsSpec(read_bytes=1000, drain_s=0.1)) as gateway:
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                try:
                    writer.write(post(b'{"x":"' + b"A" * 100_000)[:-50_000])
                    await asyncio.wait_for(came.wait(), 30)
                    WAYS[way](writer)
                    await asyncio.wait_for(ended.wait(), 30)
                    await until(lambda: gateway.loads.totals(0) == (0, 0, 0, 0), 30)
                finally:
                    writer.close()

    run(test())
