"""A slow candidate makes production's next request wait; unfinished copies fill the memory.

That production goes on when the shadow process is killed or stopped is tested, with the real processes, in
`tests/gateway/test_processes.py`.
"""

import asyncio
from pathlib import Path

import pytest

from gateway.spec import SamplingSpec
from mirror.spec import ArmSpec
from tests.failures.shadowed import PATH, chat, shadowed
from tests.failures.support import told
from tests.mirror import scripted
from tests.mirror.scripted import Request, engine, tokens
from tests.support import FINISH, LAST, TOKEN, Engine, Gateway, post, running, streams, until
from tests.support_shared import run

REQUESTS = 60


async def over_one_connection(gateway: Gateway, bodies: list[bytes]) -> None:
    """One request after the other, each answered whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        for body in bodies:
            writer.write(post(body, PATH, close=False))
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n" + LAST), 10)  # a head may end so too
            assert answer.startswith(b"HTTP/1.1 200") and b"[DONE]" in answer
    finally:
        writer.close()


async def takes_nothing(request: Request, writer: asyncio.StreamWriter) -> None:
    """Reads its first request's head and nothing more, for ever."""
    await asyncio.sleep(60)


BAD = {
    "never answers": scripted.hang,
    "one token, then nothing": scripted.stall,
    "a byte a second, for ever": scripted.drip,
    "floods": scripted.flood,
    "resets": scripted.reset,
    "speaks no HTTP": scripted.nonsense,
    "says it is busy": scripted.busy,
}


@pytest.mark.parametrize("which", ["the candidate", "control", "both"])
def test_h35_mirror_stalls_production_never_whatever_an_arm_does(which: str) -> None:
    """Every kind of bad arm; its copies are still under way, or over in some way, when production is done."""

    async def one(kind: str) -> None:
        production = Engine(streams(TOKEN, FINISH))
        good = tokens if which != "both" else BAD[kind]
        async with engine(BAD[kind]) as bad, engine(good) as other:
            first, second = (other, bad) if which == "the candidate" else (bad, other)
            arms = ArmSpec("control", first.url), ArmSpec("c", second.url)
            running_now = shadowed(production, arms=arms, max_inflight=20, answer_bytes=1 << 20, drain_s=0.1)
            async with running_now as it:
                await over_one_connection(it.gateway, [chat(n) for n in range(REQUESTS)])
                assert len(production.asked) == REQUESTS and it.gateway.inflight() == 0, kind
                async with asyncio.timeout(20):
                    while it.books.get("admitted") != REQUESTS:
                        await asyncio.sleep(0.02)
                books = it.books  # each copy is paired, dropped or still open
                dropped = books["dropped"]
                assert books["paired"] + books["open"] + sum(dropped.values()) == REQUESTS, kind
                assert set(dropped) <= {"overload"} and books["open"] <= 20, (kind, dropped)

    async def test() -> None:
        await asyncio.gather(*(one(kind) for kind in BAD))

    run(test())


def test_h35_mirror_stalls_production_never_when_nobody_is_at_an_arms_address() -> None:
    async def test() -> None:
        async with engine(tokens) as gone:
            nobody = gone.url
        production = Engine(streams(TOKEN, FINISH))
        arms = ArmSpec("control", nobody), ArmSpec("c", nobody)
        async with shadowed(production, arms=arms) as it:
            await over_one_connection(it.gateway, [chat(n) for n in range(REQUESTS)])
            assert (await it.settled(REQUESTS))["dropped"] == {}

    run(test())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_h35_mirror_stalls_production_never_nor_fills_the_memory_with_unfinished_copies() -> None:
    """400 MB of copies for arms that never answer: what is held is bounded, and the rest counted."""

    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(scripted.hang) as control, engine(takes_nothing) as candidate:
            arms = ArmSpec("control", control.url), ArmSpec("c", candidate.url)
            running_now = shadowed(production, arms=arms, lane_bytes=4 << 20, held_bytes=8 << 20, drain_s=0.1)
            async with running_now as it:
                await over_one_connection(it.gateway, [chat(0, size=1_000_000)])
                before = resident_bytes()
                for n in range(1, 400):
                    await over_one_connection(it.gateway, [chat(n, size=1_000_000)])
                    for one in production.asked, control.requests, candidate.requests:
                        one.clear()  # what the test itself would hold
                async with asyncio.timeout(20):
                    while it.books.get("admitted") != 400:
                        await asyncio.sleep(0.02)
                assert sum(it.books["dropped"].values()) > 380
                assert resident_bytes() - before < 100 << 20

    run(test())


def test_h35_mirror_stalls_production_never_when_the_shadow_process_stops_reading() -> None:
    """It hangs, or its machine swaps: the lane fills to its bound, and then copies are dropped."""

    async def test() -> None:
        stuck: list[asyncio.StreamWriter] = []

        async def never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            stuck.append(writer)

        production = Engine(streams(TOKEN, FINISH))
        samplings = [SamplingSpec("fp8-kv", None, 1.0, b"salt")]
        async with (
            running(production, experiments=samplings, lane_bytes=8 << 20) as gateway,
            told(gateway.run_dir) as status,
        ):
            lane = await asyncio.start_unix_server(never_reads, str(gateway.run_dir / "lane.sock"))
            try:
                await until(lambda: bool(stuck))
                before = resident_bytes()
                for n in range(100):
                    await over_one_connection(gateway, [chat(n, size=2_000_000)])
                    production.asked.clear()
                assert resident_bytes() - before < 100 << 20
                stuck[0].transport.abort()  # and now it is gone altogether
                await over_one_connection(gateway, [chat(n) for n in range(100, 110)])
                assert gateway.inflight() == 0
                await until(lambda: status.counts.get("complete") == 110)
            finally:
                lane.close()
                for one in stuck:
                    one.transport.abort()

    run(test())
