"""Many split requests at once, engines that fail, clients that leave: all books close and no KV is left."""

import asyncio
import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gateway.spec import LimitsSpec
from tests.gateway.split.staging import CHAT, COMPLETIONS, FAST, Stage, emulated, idle, run
from tests.support import Answered, ask, post, until

REQUESTS = 150
FAULTY = replace(FAST, refuse_rate=0.05, error_rate=0.05, cut_rate=0.05, handover_wait_s=2.0, num_blocks=4096)
LIMITS = LimitsSpec(drain_s=5.0, first_token_timeout_s=20.0, retries=3, retry_per_s=1000.0)


def request(rng: Random) -> tuple[str, dict[str, Any]]:
    words = f"story {rng.randrange(6)} " * rng.randrange(1, 120)
    body: dict[str, Any] = {
        "model": "emulated",
        "max_tokens": rng.randrange(2, 20),
        "stream": rng.random() < 0.6,
    }
    if rng.random() < 0.5:
        return COMPLETIONS, {**body, "prompt": words}
    return CHAT, {**body, "messages": [{"role": "user", "content": words}]}


async def one(stage: Stage, seed: int, room: asyncio.Semaphore) -> Answered | None:
    rng = Random(seed)
    path, body = request(rng)
    data = post(json.dumps(body).encode(), path)
    async with room:
        if rng.random() < 0.2:  # this client leaves
            _, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
            writer.write(data)
            await asyncio.sleep(rng.random() * 0.05)
            writer.close()
            return None
        return await ask(stage.gateway.port, data, timeout_s=40)


def is_good(answer: Answered) -> bool:
    return answer.status == 200 and answer.is_whole and b'"error"' not in answer.text


@pytest.mark.parametrize("style", ["vllm", "sglang"])
def test_all_books_close_and_no_kv_is_left(style: str) -> None:
    async def test() -> None:
        async with emulated(style, 2, 2, FAULTY, limits=LIMITS) as stage:
            room = asyncio.Semaphore(32)
            answers = await asyncio.gather(*(one(stage, seed, room) for seed in range(REQUESTS)))
            stayed = [answer for answer in answers if answer is not None]
            assert len(stayed) > REQUESTS / 2
            assert all(answer.status for answer in stayed)  # nobody is left without a word
            assert sum(map(is_good, stayed)) > len(stayed) * 0.7
            await idle(stage.gateway)
            await until(lambda: stage.stranded() == 0)
            fetched = [one.handover.fetches for one in stage.decode]
            assert all(fetched) and sum(fetched) > REQUESTS / 2

    run(test)
