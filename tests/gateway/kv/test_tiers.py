"""Lower tiers over real sockets: what engines move to hosts' memory is known as they would find it."""

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from routing.events.chain import block_chain
from tests.gateway.kv.staging import FAST, SIZE, Fed, emulated, engine, feeding, neighbours, run, until
from tests.gateway.kv.test_drain import started
from tests.gateway.kv.test_feed import PROMPT, ask
from tests.routing.events.test_trtllm import CREATED, block, chain, diff


def reach(fed: Fed, tokens: list[int], id: int = 0) -> tuple[int, int]:
    """Leading blocks that are said to be on the device, and to be found in the host's memory or above."""
    here = fed.match(tokens).get(id, -1)
    below = fed.reader.below(block_chain(tokens, SIZE), SIZE).get(id, (0, 0))
    return here, max(here, below[0])


@pytest.mark.parametrize("form", ["vllm", "vllm-arrays", "sglang"])
@pytest.mark.parametrize("late", [False, True])
def test_what_is_in_either_tier_is_what_the_engine_would_find_in_every_form(
    tmp_path: Path, form: str, late: bool
) -> None:
    """Prompts that push one another out of both; `late`: all of it is heard by a replay."""

    async def test(stack: AsyncExitStack) -> None:
        params = replace(FAST, kv_events_form=form, num_blocks=40, host_blocks=60, max_model_len=512)
        running = await emulated(stack, params)
        cache = running.engine.scheduler.cache
        prompts = [[number, *PROMPT] for number in range(24)]

        def found(prompt: list[int]) -> tuple[int, int]:
            here, more = cache.reach(cache.lease(prompt).chain)
            return here, here + more

        async def work() -> None:
            for number in (*range(24), *range(20, 10, -1)):
                await ask(running, prompts[number])

        if late:
            await work()
        async with feeding(tmp_path, engine(running.url, kind="auto")) as fed:
            heard = await fed.exact()
            if not late:
                await work()
            await until(lambda: all(reach(fed, prompt) == found(prompt) for prompt in prompts))
            either = {found(prompt) for prompt in prompts}
            assert {(0, 0), (0, 5), (5, 5)} <= either, "some are nowhere, some below, some on the device"
            assert not heard.publisher.ignored
            below = heard.status()["blocks_below"]
            assert below == {"host": heard.publisher.held_below[1]} and below["host"] > heard.publisher.held

    run(test)


def test_what_trtllm_moves_between_levels_is_known_to_the_one_that_reads_and_to_those_it_tells(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        trtllm = await started(stack)
        port = neighbours()
        reads = engine(trtllm.url, kind="trtllm", drain=True, publish_drained=f"tcp://127.0.0.1:{port}")
        at: dict[str, Any] = {
            "publish": "tcp://{host}:" + str(port),
            "replay": "tcp://{host}:" + str(port + 1),
        }
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
        tokens = [*range(3 * SIZE)]

        def moved(own: int, old: int, new: int) -> dict[str, Any]:
            return {"type": "updated", "block_hash": own, "cache_level": diff(old, new), "priority": None}

        blocks = [block(n + 1, range(n * SIZE, n * SIZE + SIZE)) for n in range(3)]
        trtllm.say(CREATED, chain(None, *blocks), moved(3, 0, 1), moved(2, 0, 1))
        async with feeding(tmp_path / "first", reads) as one:
            await until(lambda: reach(one, tokens) == (1, 3))
            async with feeding(tmp_path / "second", engine(trtllm.url, kind="trtllm", **at)) as two:
                await until(lambda: reach(two, tokens) == (1, 3))
                for said, then in (
                    ((moved(2, 1, 0),), (2, 3)),
                    ((moved(3, 1, 0),), (3, 3)),
                    ((moved(3, 0, 1), {"type": "removed", "block_hashes": [2]}), (1, 1)),
                ):
                    trtllm.say(*said)
                    await until(lambda then=then: reach(one, tokens) == reach(two, tokens) == then)  # type: ignore[misc]
                trtllm.say({"type": "removed", "block_hashes": [1 << 70]}, moved(1, 0, 1))
                await until(
                    lambda: one.match(tokens) == two.match(tokens) == {}
                )  # one is missing, and reading goes on
                trtllm.say(CREATED, chain(None, *blocks))
                await until(lambda: reach(one, tokens) == reach(two, tokens) == (3, 3))
                assert one.match(tokens) == two.match(tokens) == {0: 3}

    run(test)
