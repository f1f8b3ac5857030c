"""What a whole gateway says that real vLLM has cached, against what vLLM tells those who asked.

Two workers before one engine: chats that share system prompts and documents, loops of tools, and thinking
under a template that takes it out of what stood before.  What the gateway's metrics say was foretold is held
against the `cached_tokens` of its clients' answers.
"""

import asyncio
import json
from pathlib import Path
from random import Random

import aiohttp
import pytest

from bench.bridge.talks import Ask, Talks
from tests.e2e.servers import vllm
from tests.e2e.test_foretold import THINKING, flags
from tests.gateway.bridge.test_foretold import Metrics, at_most_0, metrics, settled, until
from tests.gateway.whole import Whole, serving
from tests.support_shared import run

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

KINDS = ("chat", "tools", "thinking", "reasoning")
TALKS, AT_A_TIME = 48, 3


async def cached(session: aiohttp.ClientSession, whole: Whole, asked: Ask) -> int:
    """Tokens that the engine found, as its client is told."""
    found = None
    async with session.post(f"{whole.url}/v1/chat/completions", data=asked.body("tiny", 8)) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            if line.startswith(b"data: {") and (usage := json.loads(line[6:]).get("usage")):
                found = usage["prompt_tokens_details"]["cached_tokens"]
    assert found is not None
    return int(found)


async def known(whole: Whole, session: aiohttp.ClientSession) -> None:
    """Wait until events are heard, the template was probed and prompts are learned."""
    await until(whole, lambda found: found.get(("kv_state", "EXACT"), 0) == 1)
    for number in range(300):
        if (await metrics(whole)).get(("learned_prompts", ""), 0):
            return
        await cached(
            session, whole, Ask("warm", 0, [{"role": "user", "content": f"{number} warms " * 60}], None)
        )
    raise AssertionError(f"nothing is learned\n{whole.log}")


async def conversations(whole: Whole, session: aiohttp.ClientSession) -> list[int]:
    """Some at a time; tokens that each request found."""
    source, turns, found = Talks(Random(7), 0.5), asyncio.Semaphore(AT_A_TIME), list[int]()

    async def talk(kind: str) -> None:
        async with turns:
            for asked in source.one(kind):
                found.append(await cached(session, whole, asked))
                await asyncio.sleep(0.3)  # as long as a user or a tool takes at the least

    async with asyncio.TaskGroup() as group:
        for number in range(TALKS):
            group.create_task(talk(KINDS[number % len(KINDS)]))
    return found


def told(before: Metrics, after: Metrics, name: str, what: str = "") -> float:
    return after.get((name, what), 0.0) - before.get((name, what), 0.0)


def test_what_the_gateway_foretells_of_real_conversations_vllm_finds(tmp_path: Path) -> None:
    async def test(engine: str) -> None:
        settings = {"fleets": [{"model": "tiny", "engines": [engine]}], "workers": 2}
        async with (
            serving(tmp_path, settings) as whole,
            aiohttp.ClientSession(headers={"content-type": "application/json"}) as session,
        ):
            await known(whole, session)
            await settled(whole)
            before = await metrics(whole)
            found = await conversations(whole, session)
            after = await until(whole, lambda now: told(before, now, "cached_tokens") >= sum(found))
        errors = {
            bound: int(told(before, after, "foretold_error", bound))
            for name, bound in sorted(after)
            if name == "foretold_error"
        }
        share = told(before, after, "found_tokens") / sum(found)
        print(f"{len(found)} requests, {sum(found)} tokens cached, {share:.1%} foretold; by error: {errors}")
        assert len(found) > 4 * TALKS and sum(found) > 100 * len(found)
        assert share >= 0.95
        too_high = sum(number for bound, number in errors.items() if not at_most_0(bound))
        assert too_high <= 0.01 * len(found)

    with vllm(tmp_path, *flags(*THINKING)) as engine:
        run(test(engine))
