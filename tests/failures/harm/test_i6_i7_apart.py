"""I6, I7: a client that leaves is gone at the engine, copied or not; and names are resolved apart."""

import asyncio
import socket
from typing import Any

import pytest
import uvloop

from mirror.spec import ArmSpec
from tests.failures.shadowed import PATH, chat, served, shadowed
from tests.mirror import scripted
from tests.mirror.scripted import engine, tokens
from tests.standing import run, standing
from tests.support import FINISH, SSE_HEAD, TOKEN, Engine, Peer, event, post, streams, until


def test_i6_a_client_that_leaves_is_gone_at_the_engine_at_once_while_its_copy_is_under_way() -> None:
    """At once: nothing waits for a time to come, the clock stands meanwhile."""

    async def test() -> None:
        gone = asyncio.Event()

        async def endless(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            if await peer.left():
                gone.set()

        async with engine(scripted.hang) as control, engine(scripted.stall) as candidate:
            arms = ArmSpec("control", control.url), ArmSpec("c", candidate.url)
            async with shadowed(Engine(endless), arms=arms, drain_s=0.1) as it:
                reader, writer = await asyncio.open_connection("127.0.0.1", it.gateway.port)
                writer.write(post(chat(1), PATH))
                await reader.readuntil(b"tok")
                await until(lambda: bool(control.requests and candidate.requests))
                with standing():
                    writer.close()
                    await gone.wait()
                assert it.gateway.inflight() == 0

    run(test())


class SlowNames(uvloop.Loop):
    """A loop whose resolver says of names below .slow that there are none, once `given_up` is set; all others
    it asks the system about."""

    def __init__(self) -> None:
        super().__init__()
        self.given_up = asyncio.Event()

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        if str(host).endswith(".slow"):
            await self.given_up.wait()
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return await super().getaddrinfo(host, port, **more)


@pytest.mark.parametrize("nameless", [("c",), ("control",), ("c", "control")], ids=",".join)
def test_i7_arms_whose_names_are_not_resolved_hold_up_neither_production_nor_each_other(
    nameless: tuple[str, ...],
) -> None:
    async def test() -> None:
        production, loop = Engine(streams(TOKEN, FINISH)), asyncio.get_running_loop()
        assert isinstance(loop, SlowNames)
        async with engine(tokens) as there:
            control, candidate = (
                ArmSpec(name, "http://arm.slow:8000" if name in nameless else there.url)
                for name in ("control", "c")
            )
            async with shadowed(production, arms=(control, candidate), patience_s=0.1) as it:
                for n in range(30):
                    assert await served(it.gateway, chat(n))
                await until(lambda: there.finished == 30 * (2 - len(nameless)))
                assert not it.stage.analysis.of("pair")  # all this time no name was resolved
                loop.given_up.set()
                books = await it.settled(30)
                assert books["paired"] + sum(books["dropped"].values()) == 30
                pairs = it.stage.analysis.of("pair")
                endings = {(one["arm"], one["ending"]) for pair in pairs for one in pair["answers"]}
                assert {arm for arm, ending in endings if ending == "complete"} == {"control", "c"} - set(
                    nameless
                )
                assert {arm for arm, ending in endings if ending != "complete"} == set(nameless)

    with asyncio.Runner(loop_factory=SlowNames) as runner:
        runner.run(test())
