"""A gateway in front of a fleet with roles: emulated engines that really hand over KV, or scripted ones."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import uvloop

from emulator.params import EngineParams
from emulator.server import Running, start
from gateway.spec import EngineSpec, FleetSpec, SplitSpec
from tests.support import Answered, Engine, Gateway, Peer, ask, post, running, until

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
FAST = EngineParams(speed=40.0, hiccup_rate=0.0, default_temperature=0.0)
TEXT = "Tell me of " + "the lighthouse and the sea " * 40
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"model": "emulated", "messages": [{"role": "user", "content": TEXT}], "max_tokens": 24},
    COMPLETIONS: {"model": "emulated", "prompt": TEXT, "max_tokens": 24},
}
OTHERS = 9  # requests of another worker
SAID = {"do_remote_prefill": True, "remote_engine_id": "e", "remote_block_ids": [[1, 2]], "remote_port": 5}


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test to its end."""

    async def bounded() -> None:
        await asyncio.wait_for(test(), 60)

    uvloop.run(bounded())


@dataclass
class Stage:
    """The gateway, and its emulated engines by role in their order."""

    gateway: Gateway
    prefill: list[Running]
    decode: list[Running]

    async def ask(self, path: str, body: dict[str, Any], *extra: str) -> Answered:
        return await ask(self.gateway.port, post(json.dumps(body).encode(), path, *extra))

    def stranded(self) -> int:
        """Blocks that are in use on any engine."""
        caches = [one.engine.scheduler.cache for one in (*self.prefill, *self.decode)]
        return sum(cache.num_blocks - cache.free_blocks for cache in caches)


def fleet(urls: Sequence[tuple[str, str]], split: SplitSpec, policy: str = "prefix_cost") -> FleetSpec:
    """A fleet of (role, url)."""
    kind = "sglang" if split.style == "sglang" else "vllm"
    engines = tuple(
        EngineSpec(id, url, kind=kind, role=role, bootstrap_port=int(url.rpartition(":")[2]))
        for id, (role, url) in enumerate(urls)
    )
    return FleetSpec(None, (), True, engines, policy, split=split)


@asynccontextmanager
async def emulated(
    style: str = "vllm", prefill: int = 1, decode: int = 1, params: EngineParams = FAST,
    split: SplitSpec | None = None, **more: Any,
) -> AsyncIterator[Stage]:  # fmt: skip
    """Emulated engines in both roles behind a gateway."""
    async with AsyncExitStack() as stack:
        halves: list[list[Running]] = []
        for role, count in (("prefill", prefill), ("decode", decode)):
            way = style if style == "vllm" else f"sglang-{role}"
            started = [await start(replace(params, handover=way)) for _ in range(count)]
            for one in started:
                stack.push_async_callback(one.close)
            halves.append(started)
        urls = [("prefill", one.url) for one in halves[0]] + [("decode", one.url) for one in halves[1]]
        specs = (fleet(urls, split or SplitSpec(style)),)
        gateway = await stack.enter_async_context(running(fleets=specs, **more))
        yield Stage(gateway, *halves)


@asynccontextmanager
async def scripted(
    prefill: Sequence[Engine], decode: Sequence[Engine], split: SplitSpec | None = None, **more: Any
) -> AsyncIterator[Gateway]:
    """Scripted engines in both roles behind a gateway; ids count through both.

    The first of each role is chosen before the others: another worker has those busy.
    """
    engines = (*prefill, *decode)
    for engine in engines:
        await engine.start()
    urls = [("prefill", one.url) for one in prefill] + [("decode", one.url) for one in decode]
    async with running(*engines, fleets=(fleet(urls, split or SplitSpec()),), **more) as gateway:
        others = gateway.loads.row(1)
        for id in (*range(1, len(prefill)), *range(len(prefill) + 1, len(engines))):
            others.add(id, OTHERS, 0)
        yield gateway


async def idle(gateway: Gateway) -> None:
    """Wait until nothing of this worker's is at any engine."""
    mine = gateway.loads.row(0)
    ids = [engine.id for fleet in gateway.spec.fleets for engine in fleet.engines]
    await until(lambda: all(mine.load(id)[:2] == (0, 0) for id in ids))


def asked(peer: Peer) -> dict[str, Any]:
    """What a scripted engine was asked."""
    found: dict[str, Any] = json.loads(peer.body)
    return found


def header(peer: Peer, name: str) -> str | None:
    return next((value for given, value in peer.headers if given.lower() == name), None)
