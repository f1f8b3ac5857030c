"""I8: once it was said that everybody obeys, no copy is sent, while traffic goes on as it did.

How soon that is, `bench/pausing.py` measures.  Brakes trip in `tests/gateway/test_experiment_brakes.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.failures.harm.test_i3_i4_processes import all_answered
from tests.gateway.test_experiment_switch import asked, command, copied, settings
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.support import FINISH, TOKEN, Engine, streams


async def by_command(whole: Whole, engines: list[Engine]) -> None:
    assert (await command(whole, "pause", "trial"))[0] == 0


async def over_http(whole: Whole, engines: list[Engine]) -> None:
    assert (await asked(whole, "/api/pause"))[0] == 200


async def by_reload(whole: Whole, engines: list[Engine]) -> None:
    whole.write(experiments=settings(engines, paused=True)["experiments"])
    assert (await whole.reload())[0] == 200


async def read_up(engine: Engine) -> None:
    """What lay in the engine's sockets has been read: connections are accepted in turn, and this is the last.

    Twice, for a request that came in pieces is read in some turns of the loop more.
    """
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", engine.port)
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: e\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("throw", [by_command, over_http, by_reload])
def test_i8_no_copy_is_sent_once_a_pause_is_acknowledged_amid_traffic(
    tmp_path: Path, throw: Callable[[Whole, list[Engine]], Awaitable[None]]
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        numbers = count()
        async with serving(tmp_path, settings(engines)) as whole:
            processes = whole.children()
            await copied(whole, engines[1], numbers)
            traffic = asyncio.get_running_loop().create_task(all_answered(whole, numbers, 400))
            before = len(engines[1].asked)
            while len(engines[1].asked) < before + 20:  # copies come
                await asyncio.sleep(0.001)
            await throw(whole, engines)
            for engine in engines[1:]:
                await read_up(engine)
            arrived = [len(engine.asked) for engine in engines]
            await traffic
            await all_answered(whole, numbers, 80)
            assert [len(engine.asked) for engine in engines[1:]] == arrived[1:]
            assert len(engines[0].asked) >= arrived[0] + 80
            assert whole.children() == processes

    with_engines(test)
