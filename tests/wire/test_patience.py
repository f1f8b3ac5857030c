"""A pause of our own process is nobody else's failure: what lies in the kernel is read first."""

import asyncio
import socket
import time
from collections.abc import Callable

import pytest
import uvloop

from tests.connections import listening
from tests.wire.test_upstream import ASK, YES, Heard, saying
from wire.exchange import Ending
from wire.fetch import fetch
from wire.origin import Origin
from wire.patience import within
from wire.tasks import Tasks
from wire.upstream import Pool

SHORT_S = 0.2
LOOPS = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])

NewLoop = Callable[[], asyncio.AbstractEventLoop]


def pause() -> None:
    """As a stopped process, or one on a core that others have: nothing runs beyond the deadline."""
    time.sleep(4 * SHORT_S)


@LOOPS
def test_a_connection_made_while_this_process_stood_still_is_used(loop: NewLoop) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:  # the kernel answers for it
            origin = Origin.parse(f"http://127.0.0.1:{server.getsockname()[1]}")
            pool = Pool(origin, loop=asyncio.get_running_loop(), connect_timeout_s=SHORT_S)
            heard = Heard()
            pool.send(ASK, heard)
            asyncio.get_running_loop().call_later(0, pause)
            server.setblocking(False)
            engine, _ = await asyncio.get_running_loop().sock_accept(server)
            with engine:
                asked = await asyncio.get_running_loop().sock_recv(engine, len(ASK))
                assert asked == ASK
                await asyncio.get_running_loop().sock_sendall(engine, YES)
                assert (await heard.ending(), heard.body) == (Ending.COMPLETE, b"yes")
            pool.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test())


@LOOPS
def test_an_answer_that_came_while_this_process_stood_still_is_one(loop: NewLoop) -> None:
    """Else every probe under way at a pause fails, and with it the whole fleet for a moment."""

    async def test() -> None:
        async with listening(saying(YES)) as port:
            pool = Pool(Origin.parse(f"http://127.0.0.1:{port}"), loop=asyncio.get_running_loop())
            assert (await fetch(pool, ASK, 10)).body == b"yes"  # a connection is there
            asking = Tasks().spawn(fetch(pool, ASK, SHORT_S), name="asking")
            await asyncio.sleep(0)
            pause()
            got = await asking
            assert (got.ending, got.body) == (Ending.COMPLETE, b"yes")
            pool.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test())


@LOOPS
def test_what_never_comes_is_given_up_also_after_a_pause(loop: NewLoop) -> None:
    async def nothing() -> None:
        async with within(SHORT_S):
            await asyncio.Event().wait()

    async def test(*, paused: bool) -> None:
        if paused:
            asyncio.get_running_loop().call_soon(pause)
        with pytest.raises(TimeoutError):
            await nothing()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test(paused=False))
        runner.run(test(paused=True))


@LOOPS
def test_a_deadline_that_was_kept_leaves_nothing_behind(loop: NewLoop) -> None:
    async def test() -> None:
        failed: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failed.append(context))
        async with within(SHORT_S):
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):  # by this one, when a timer left behind would have acted
            async with asyncio.timeout(2 * SHORT_S):
                await asyncio.Event().wait()
        me = asyncio.current_task()
        assert me is not None and not me.cancelling() and not failed

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(test())
