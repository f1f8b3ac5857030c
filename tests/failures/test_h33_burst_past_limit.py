"""Five at once all pass a budget of 100 tokens and use 660; limits multiply by the number of workers.

The decisions have their own tests in `tests/admission/`; here the whole program is asked.
"""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.failures.processes import Whole, engine_that, serving
from tests.failures.support import at_once
from tests.support import FINISH, LAST, SSE_HEAD, TOKEN, Answered, Engine, Peer, ask, event, post, until
from tests.support_shared import run


def config(folder: Path, engine: Engine, limits: dict[str, float], workers: int) -> str:
    path = folder / "config.json"
    fleets = [{"model": "m", "engines": [engine.url]}]
    told = {"workers": workers, "fleets": fleets, "admission": {"limits": limits}, "limits": {"drain_s": 1}}
    path.write_text(json.dumps(told))
    return str(path)


def prompt(n: int, size: int = 400) -> bytes:
    messages = [{"role": "user", "content": f"{n} ".ljust(size, "x")}]
    return post(json.dumps({"model": "m", "stream": True, "messages": messages}).encode())


async def burst(whole: Whole, n: int) -> tuple[Counter[int], list[Answered]]:
    got = await at_once(ask(whole.port, prompt(k)) for k in range(n))
    return Counter(one.status for one in got), [one for one in got if one.status != 200]


@pytest.mark.parametrize(
    ("limits", "workers"),
    [
        ({"requests_per_s": 0.001, "requests_burst": 3}, 3),
        ({"prompt_tokens_per_s": 0.01, "prompt_tokens_burst": 350}, 3),  # a prompt is 102 by estimate
        ({"concurrency": 3}, 1),
    ],
    ids=["requests", "prompt tokens", "at a time"],
)
def test_h33_burst_past_limit_never_of_many_at_once_so_many_pass_as_the_budget_holds(
    tmp_path: Path, limits: dict[str, float], workers: int
) -> None:
    """However many workers there are; the rest is told in words, and when to come again."""

    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(event(FINISH), LAST)

        async with (
            engine_that(script) as engine,
            serving(tmp_path, "--config", config(tmp_path, engine, limits, workers)) as whole,
        ):
            asking = asyncio.get_running_loop().create_task(burst(whole, 30))
            async with asyncio.timeout(30):
                while len(engine.asked) < 3:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)  # none may come after these
            came = len(engine.asked)
            go_on.set()
            statuses, refused = await asking
            assert came == 3
            assert statuses[200] == 3 and sum(statuses.values()) == 30
            assert set(statuses) <= {200, 429, 503}
            for one in refused:
                assert int(one.header("retry-after")[0]) >= 1
                assert json.loads(one.text)["error"]["message"]

    run(test())


def test_h33_burst_past_limit_what_failed_before_its_answer_costs_nothing(tmp_path: Path) -> None:
    """A budget for three; resets and engines that refuse; then three are served, and no fourth."""

    async def test() -> None:
        ending = "reset"

        async def script(peer: Peer) -> None:
            if ending == "reset":
                peer.reset()
            elif ending == "refused":
                await peer.send(b"HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\n{}")
            else:
                await peer.send(SSE_HEAD, event(TOKEN), event(FINISH), LAST)

        limits = {"prompt_tokens_per_s": 0.01, "prompt_tokens_burst": 350}
        async with (
            engine_that(script) as engine,
            serving(tmp_path, "--config", config(tmp_path, engine, limits, 1)) as whole,
        ):
            for how, told in (("reset", 502), ("refused", 400)):
                ending = how
                for n in range(6):
                    assert (await ask(whole.port, prompt(n))).status == told
            ending = "served"
            statuses, _ = await burst(whole, 6)
            assert statuses[200] == 3, statuses

    run(test())


def test_h33_burst_past_limit_never_by_clients_that_leave_while_an_engine_works_for_them(
    tmp_path: Path,
) -> None:
    """Or asking and leaving would have prompts read for nothing.  A budget for three; one left."""

    async def test() -> None:
        left = asyncio.Event()

        async def script(peer: Peer) -> None:
            if not left.is_set():
                await peer.left()
                left.set()
            else:
                await peer.send(SSE_HEAD, event(TOKEN), event(FINISH), LAST)

        limits = {"prompt_tokens_per_s": 0.01, "prompt_tokens_burst": 350}
        async with (
            engine_that(script) as engine,
            serving(tmp_path, "--config", config(tmp_path, engine, limits, 1)) as whole,
        ):
            _, writer = await asyncio.open_connection("127.0.0.1", whole.port)
            writer.write(prompt(0))
            await until(lambda: len(engine.asked) == 1)
            writer.close()
            await asyncio.wait_for(left.wait(), 30)
            statuses, _ = await burst(whole, 6)
            assert statuses[200] == 2, statuses

    run(test())
