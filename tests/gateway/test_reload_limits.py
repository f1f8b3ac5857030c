"""Keys and limits of a whole gateway change under a stream that runs, in all its workers."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from gateway.admission.keys import hashed
from tests.gateway.whole import begin, serving, with_engines
from tests.support import CHAT, FINISH, LAST, SSE_HEAD, TOKEN, Engine, Peer, ask, event, post, until

PATH = "/v1/chat/completions"


def key(name: str, **limits: Any) -> dict[str, Any]:
    return {"name": name, "hash": hashed(f"sl-{name}"), "limits": limits}


def by(name: str) -> bytes:
    return post(CHAT, PATH, f"Authorization: Bearer sl-{name}")


def test_a_stream_outlives_its_key_and_its_limits_and_the_new_ones_hold_at_once(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(event(FINISH), LAST)

        engine = Engine(script)
        await begin(stack, engine)
        settings: dict[str, Any] = {
            "workers": 2,
            "fleets": [{"model": "m", "engines": [engine.url]}],
            "keys": [key("old"), key("stays", concurrency=8)],
        }
        async with serving(tmp_path, settings) as whole:
            asking = asyncio.get_running_loop().create_task(ask(whole.port, by("old"), 60))
            await until(lambda: len(engine.asked) == 1)
            assert (await ask(whole.port, by("new"))).status == 401
            fleets = [{"model": "m", "engines": [engine.url], "engine_concurrency": 4}]
            whole.write(
                keys=[key("new"), key("stays", requests_per_s=0.001, requests_burst=3)], fleets=fleets
            )
            assert (await whole.reload())[0] == 200
            assert (await ask(whole.port, by("old"))).status == 401
            go_on.set()
            ran = await asking
            assert ran.status == 200 and ran.is_whole
            assert (await ask(whole.port, by("new"))).status == 200
            statuses = [(await ask(whole.port, by("stays"))).status for _ in range(6)]
            assert sorted(statuses) == [200] * 3 + [429] * 3  # three, whichever workers they came to
            whole.write(keys=[], fleets=settings["fleets"])
            assert (await whole.reload())[0] == 200
            assert (await ask(whole.port, post())).status == 200
            assert (await ask(whole.port, by("stays"))).status == 200

    with_engines(test)
