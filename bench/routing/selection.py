"""Does `dynamo_cost` count and choose as Dynamo's own selection service, where requests end in any order?

The service (`python -m dynamo.select_service`) is told of workers, of their KV events over ZeroMQ, of first
tokens and of ends; so are our index and our policy. Before each choice both are asked what the request would
cost everywhere: the figures must be equal, and what the service then chooses must be one of our cheapest.
`heard` repeats what one such run had, without the service.
"""

import asyncio
import json
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec
import zmq.asyncio
from msgspec import msgpack
from xxhash import xxh3_64_intdigest

from bench.stage import free_ports
from routing.index import PrefixIndex
from routing.policies import dynamo_cost
from routing.router import Router
from routing.types import EngineLoad, Prompt

ENGINES, REQUESTS = 4, 400
BLOCK_TOKENS, BLOCK_BYTES = 16, 64
_VOCABULARY = 30_000
_WAIT_S = 30.0


class Step(msgspec.Struct, tag_field="do", frozen=True):
    """What happened to one request."""

    request: int


class Sent(Step, tag="sent", frozen=True):
    """It shares the first `shared` blocks with all of the same `beginning`, and has `own` of its own.

    By engine, before the choice: tokens to be computed there with it, and blocks in use with it.
    """

    beginning: int
    shared: int
    own: int
    prefill_tokens: list[int]
    decode_blocks: list[int]
    chosen: int


class First(Step, tag="first", frozen=True):
    """Its first token came."""


class Ended(Step, tag="ended", frozen=True):
    """It is over."""


Steps = list[Sent | First | Ended]


@dataclass(slots=True)
class _Flying:
    prompt: Prompt
    engine: int
    pending_bytes: int


@dataclass(slots=True)
class Books:
    """Our side: the router's memory, the loads as a gateway keeps them, and the policy."""

    index: PrefixIndex = field(default_factory=lambda: PrefixIndex(1 << 30))
    policy: dynamo_cost.DynamoCost = field(
        default_factory=lambda: dynamo_cost.DynamoCost(dynamo_cost.Params())
    )
    loads: list[EngineLoad] = field(default_factory=lambda: [EngineLoad(n, 0, 0) for n in range(ENGINES)])
    flying: dict[int, _Flying] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Router(self.policy, self.index, Random(1))  # it shows the policy what is in flight

    def costs(self, prompt: Prompt) -> dict[int, float]:
        return self.policy.costs(prompt, self.loads, self.index.match(prompt.chain, prompt.ends))

    def sent(self, request: int, prompt: Prompt, engine: int) -> None:
        held = self.index.match(prompt.chain, prompt.ends).get(engine, 0)
        self.index.record(engine, prompt.chain, prompt.ends, 0.0)
        flying = self.flying[request] = _Flying(prompt, engine, prompt.ends[-1] - held)
        self._changed(engine, 1, flying.pending_bytes)

    def began(self, request: int) -> None:
        flying = self.flying[request]
        self._changed(flying.engine, 0, -flying.pending_bytes)
        flying.pending_bytes = 0

    def ended(self, request: int) -> int:
        flying = self.flying.pop(request)
        self.index.release(flying.engine, flying.prompt.chain)
        self._changed(flying.engine, -1, -flying.pending_bytes)
        return flying.engine

    def _changed(self, engine: int, inflight: int, pending_bytes: int) -> None:
        load = self.loads[engine]
        load.inflight += inflight
        load.pending_bytes += pending_bytes
        load.context_bytes = self.index.used_bytes(engine)


def heard(steps: Steps) -> Counter[str]:
    """How often what the service had is what we have, by what was compared."""
    books, found = Books(), Counter[str]()
    for step in steps:
        if isinstance(step, Sent):
            prompt = prompt_of(_blocks(step.request, step.beginning, step.shared, step.own))
            found += judged(books.costs(prompt), step)
            books.sent(step.request, prompt, step.chosen)
        elif isinstance(step, First):
            books.began(step.request)
        else:
            books.ended(step.request)
    return found


def judged(costs: dict[int, float], sent: Sent) -> Counter[str]:
    theirs = {
        engine: tokens / BLOCK_TOKENS + blocks
        for engine, (tokens, blocks) in enumerate(zip(sent.prefill_tokens, sent.decode_blocks, strict=True))
    }
    least = min(costs.values())
    may = [engine for engine, cost in costs.items() if cost == least]
    lot = "" if len(may) == 1 else ", one of several"
    return Counter(
        [
            f"figures: {'alike' if costs == theirs else 'DIFFERENT'}",
            f"choice: {'alike' if sent.chosen in may else 'DIFFERENT'}{lot}",
        ]
    )


def prompt_of(blocks: Sequence[int]) -> Prompt:
    """A link for each block."""
    ends = [BLOCK_BYTES * (n + 1) for n in range(len(blocks))]
    return Prompt("m", blocks, ends, blocks[0], 0, True, None)


def _blocks(request: int, beginning: int, shared: int, own: int) -> list[int]:
    names = [f"{beginning} {n}" for n in range(shared)] + [f"{request} own {n}" for n in range(own)]
    return [xxh3_64_intdigest(name.encode()) for name in names]


def _tokens(blocks: Sequence[int]) -> list[int]:
    return [token for block in blocks for token in Random(block).choices(range(_VOCABULARY), k=BLOCK_TOKENS)]


async def compare(python: str, seed: int, requests: int = REQUESTS) -> tuple[Counter[str], Steps]:
    """Both sides, and what happened."""
    rng, books, steps, found = Random(seed), Books(), Steps(), Counter[str]()
    lengths = [rng.randrange(4, 40) for _ in range(8)]
    async with AsyncExitStack() as undo:
        service = await _Service.start(python, undo)
        for request in range(requests):
            while books.flying and rng.random() < len(books.flying) / 24:
                over = rng.choice(list(books.flying))
                await service.ended(over)
                books.ended(over)
                steps.append(Ended(over))
            for begun in [one for one, flying in books.flying.items() if flying.pending_bytes]:
                if rng.random() < 0.3:
                    await service.began(begun)
                    books.began(begun)
                    steps.append(First(begun))
            beginning = rng.randrange(len(lengths))
            shared, own = lengths[beginning], rng.randrange(1, 20)
            blocks = _blocks(request, beginning, shared, own)
            sent = await service.sent(request, beginning, shared, own, blocks)
            found += judged(books.costs(prompt_of(blocks)), sent)
            steps.append(sent)
            held = books.index.match(blocks, prompt_of(blocks).ends).get(sent.chosen, 0) // BLOCK_BYTES
            books.sent(request, prompt_of(blocks), sent.chosen)
            await service.stored(sent.chosen, blocks, held)
    return found, steps


class _Service:
    """Dynamo's selection service, and the KV events of its workers."""

    def __init__(self, client: aiohttp.ClientSession, port: int, undo: AsyncExitStack) -> None:
        self._client = client
        self._url = f"http://127.0.0.1:{port}"
        context = zmq.asyncio.Context()
        undo.callback(context.destroy, 0)
        self._events = [context.socket(zmq.PUB) for _ in range(ENGINES)]
        self._sequence = [0] * ENGINES

    @classmethod
    async def start(cls, python: str, undo: AsyncExitStack) -> "_Service":
        port = free_ports(1)[0]
        quiet, env = subprocess.DEVNULL, {**os.environ, "DYN_LOG": "error"}
        process = await asyncio.create_subprocess_exec(
            python, "-m", "dynamo.select_service", "--port", str(port), env=env, stdout=quiet, stderr=quiet
        )
        undo.push_async_callback(process.wait)
        undo.callback(process.terminate)
        service = cls(await undo.enter_async_context(aiohttp.ClientSession()), port, undo)
        async with asyncio.timeout(_WAIT_S):
            while not await service._listens():  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.05)
            for engine, socket in enumerate(service._events):
                await service._worker(engine, socket.bind_to_random_port("tcp://127.0.0.1"))
        return service

    async def sent(self, request: int, beginning: int, shared: int, own: int, blocks: Sequence[int]) -> Sent:
        asked = {"model_name": "m", "token_ids": _tokens(blocks)}
        loads = await self._post("/potential_loads", asked)
        by_engine = {one["worker_id"] - 1: one for one in loads}
        chosen = await self._post("/select_and_reserve", {**asked, "selection_id": str(request)})
        return Sent(
            request,
            beginning,
            shared,
            own,
            [by_engine[engine]["potential_prefill_tokens"] for engine in range(ENGINES)],
            [by_engine[engine]["potential_decode_blocks"] for engine in range(ENGINES)],
            chosen["worker_id"] - 1,
        )

    async def began(self, request: int) -> None:
        await self._post(f"/reservations/{request}/prefill_complete", {})

    async def ended(self, request: int) -> None:
        async with self._client.delete(f"{self._url}/reservations/{request}") as answer:
            answer.raise_for_status()

    async def stored(self, engine: int, blocks: Sequence[int], held: int) -> None:
        """The engine holds all of the blocks now, and the service knows."""
        if held < len(blocks):
            new, parent = list(blocks[held:]), blocks[held - 1] if held else None
            tokens = _tokens(blocks[held:])
            event = ["BlockStored", new, parent, tokens, BLOCK_TOKENS, None, "GPU"]
            number = self._sequence[engine].to_bytes(8, "big")
            self._sequence[engine] += 1
            batch = msgpack.encode([1.0, [event], 0])
            await self._events[engine].send_multipart([b"", number, batch])
        async with asyncio.timeout(_WAIT_S):
            while await self._held(engine, blocks) != len(blocks):  # noqa: ASYNC110  as above
                await asyncio.sleep(0.002)

    async def _held(self, engine: int, blocks: Sequence[int]) -> int:
        asked = {"model_name": "m", "token_ids": _tokens(blocks)}
        scores = await self._post("/overlap_scores", asked)
        return next((one["device_blocks"] for one in scores["workers"] if one["worker_id"] == engine + 1), 0)

    async def _worker(self, engine: int, port: int) -> None:
        """Registered, and heard: a block that nobody asks for is published until it is seen."""
        worker = {"worker_id": engine + 1, "model_name": "m", "endpoint": f"http://127.0.0.1:{9000 + engine}"}
        worker |= {"block_size": BLOCK_TOKENS, "kv_events_endpoint": f"tcp://127.0.0.1:{port}"}
        await self._post("/workers", {**worker, "total_kv_blocks": 1 << 20, "max_num_batched_tokens": 8192})
        while True:
            block = [xxh3_64_intdigest(f"unasked {engine} {self._sequence[engine]}".encode())]
            event = ["BlockStored", block, None, _tokens(block), BLOCK_TOKENS, None, "GPU"]
            number = self._sequence[engine].to_bytes(8, "big")
            self._sequence[engine] += 1
            await self._events[engine].send_multipart([b"", number, msgpack.encode([1.0, [event], 0])])
            await asyncio.sleep(0.05)
            if await self._held(engine, block):
                return

    async def _listens(self) -> bool:
        try:
            async with self._client.get(f"{self._url}/health") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        async with self._client.post(self._url + path, json=body) as answer:
            if answer.status >= 300:
                raise SystemExit(f"Dynamo's selection service: {path}: {await answer.text()}")
            return await answer.json()


def keep(steps: Steps, path: Path) -> None:
    """For `heard`."""
    path.write_text("\n".join(json.dumps(msgspec.to_builtins(step)) for step in steps) + "\n")


def read(path: Path) -> Steps:
    return [msgspec.json.decode(line, type=Sent | First | Ended) for line in path.read_text().splitlines()]
