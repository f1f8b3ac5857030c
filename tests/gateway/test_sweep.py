"""Time limits hold for every one of very many, and looking after many holds nobody up."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import uvloop

from gateway import sweep
from gateway.spec import LimitsSpec
from tests.support import SSE_HEAD, TOKEN, Engine, Peer, answers, event, json_answer, post, running

MANY = 450  # more than are looked at in one turn of the loop, twice


async def ends(port: int, sends: bytes) -> list[bytes]:
    """What each of many clients was told until its connection was closed."""
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MANY)]
    for _, writer in streams:
        writer.write(sends)
    async with asyncio.timeout(20):
        told = [await reader.read() for reader, _ in streams]
    for _, writer in streams:
        writer.close()
    return told


@pytest.mark.parametrize("sends", [b"", b"GET / HTTP/1.1\r\nHo"], ids=["idle", "half a head"])
def test_clients_that_do_not_go_on_are_all_let_go(sends: bytes) -> None:
    async def go() -> None:
        limits = LimitsSpec(keep_alive_s=0.5, head_timeout_s=0.5, drain_s=5)
        async with running(Engine(answers(json_answer(b"{}"))), limits=limits) as gateway:
            for told in await ends(gateway.port, sends):
                assert told.startswith(b"HTTP/1.1 408 ") if sends else told == b""

    uvloop.run(go())


def test_engines_that_fall_silent_are_all_given_up() -> None:
    async def go() -> None:
        async def silent(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await peer.left()

        async with running(Engine(silent), limits=LimitsSpec(idle_timeout_s=1, drain_s=5)) as gateway:
            assert all(b"upstream_cut" in told for told in await ends(gateway.port, post()))

    uvloop.run(go())


def test_others_have_their_turn_while_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one at a time, every other callback of the loop comes between two."""
    turns: list[str] = []
    looked_at = sweep._look_at

    def watched(*given: object) -> int:
        turns.append("looked")
        return looked_at(*given)  # type: ignore[arg-type]

    async def go() -> None:
        monkeypatch.setattr(sweep, "_look_at", watched)
        monkeypatch.setattr(sweep, "_AT_ONCE", 1)
        loop = asyncio.get_running_loop()

        def other() -> None:
            turns.append("other")
            loop.call_soon(other)

        async with running(Engine(answers(json_answer(b"{}")))) as gateway, AsyncExitStack() as stack:
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                stack.callback(writer.close)
            loop.call_soon(other)
            async with asyncio.timeout(20):
                while turns.count("looked") < 20:
                    await asyncio.sleep(0.01)
            assert "looked looked" not in " ".join(turns)

    uvloop.run(go())
