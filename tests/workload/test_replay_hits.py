"""A replay of a recording without text finds in an engine's cache what the original found there."""

import asyncio
import time
from pathlib import Path
from random import Random

import aiohttp
import pytest

from emulator.params import EngineParams
from emulator.server import start
from tests.recording.staging import recorded
from tests.support import Engine
from workload.asks import CHAT, Ask, asks, at_speed, block_hits
from workload.formats import Recording, read
from workload.prompts import Lognormal, Shape, conversations, system_prompts
from workload.replay import History, HttpSender, Settings, open_loop
from workload.replaying import session
from workload.reply import Reply
from workload.results import Results, Slo, results
from workload.send import Sender

ENGINE = EngineParams(
    model="m", base_ms=0.5, ms_per_prefill_token=0.001, ms_per_seq=0.01, num_blocks=40_000, block_size=16
)
SHAPE = Shape(
    systems=3,
    system_bytes=(1_500, 4_000),
    turns=3,
    user_words=Lognormal(60, 0.6, 10, 300),
    max_tokens=Lognormal(60, 0.6, 8, 200),
    think_s=Lognormal(0.05, 0.3, 0.01, 0.2),
)


class _Outside(Engine):
    """An engine that runs elsewhere: nothing of it is to be started or stopped."""

    @property
    def url(self) -> str:
        return self.where

    where: str = ""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def originals(folder: Path, talks: int, seed: int = 1) -> Recording:
    """Conversations through a gateway that records, to an emulated engine."""
    rng = Random(seed)
    systems = system_prompts(rng, SHAPE)
    made = conversations(rng, SHAPE, systems)
    arrivals = [(0.03 * n, next(made)) for n in range(talks)]
    running = await start(ENGINE, "127.0.0.1", 0)
    outside = _Outside(script=None)  # type: ignore[arg-type]
    outside.where = running.url
    try:
        async with recorded(folder, outside, block_tokens=16) as there, aiohttp.ClientSession() as http:
            sender = Sender(http, f"http://127.0.0.1:{there.gateway.port}", "m", clock=time.monotonic)
            tally = await sender.send(arrivals, 60.0)
            assert tally.failed == 0
            await there.ended()
    finally:
        await running.close()
    return await asyncio.to_thread(read, [folder])


async def replayed(listed: list[Ask], history: History) -> Results:
    """The same to an engine that has seen nothing yet."""
    running = await start(ENGINE, "127.0.0.1", 0)
    try:
        async with session() as http:
            settings = Settings(running.url, model="m", history=history, ignore_eos=True)
            sender = HttpSender(http, settings, clock=time.monotonic)
            await sender.learn(CHAT, "m")
            sent = await open_loop(listed, sender.send, clock=time.monotonic)
    finally:
        await running.close()
    found: list[tuple[Ask, Reply]] = sent.results
    return results(found, Slo())


@pytest.mark.parametrize("history", ["engine", "recorded"])
def test_a_replay_hits_what_the_original_hit(tmp_path: Path, history: History) -> None:
    async def scene() -> None:
        recording = await originals(tmp_path, 30)
        listed = list(at_speed(asks(recording.rows, recording.block_tokens), 1.0))
        assert recording.kind == "recording" and recording.block_tokens == 16
        assert sum(ask.after is not None for ask in listed) > len(listed) / 3
        found = await replayed(listed, history)
        assert found.ok == found.requests == len(listed)
        assert found.hit_rate is not None and found.recorded_hit_rate is not None
        assert found.prompt_tokens is not None
        print(
            f"{history}: hit {found.hit_rate:.3f}, recorded {found.recorded_hit_rate:.3f}, "
            f"blocks {block_hits(listed):.3f}; prompt {found.prompt_tokens} of {found.asked_prompt_tokens}"
        )
        assert abs(found.prompt_tokens / found.asked_prompt_tokens - 1) < 0.05
        assert abs(found.hit_rate - found.recorded_hit_rate) < (0.06 if history == "engine" else 0.15)

    asyncio.run(scene())
