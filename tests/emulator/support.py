"""What the emulator's tests share: engines on loopback, SSE reading, vLLM's captured shapes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import uvloop

from emulator.generation import Generator
from emulator.params import EngineParams
from emulator.server import Running, start
from emulator.text import Tokenizer

FIXTURES = Path(__file__).parent / "fixtures"
FAST = EngineParams(speed=40.0, hiccup_rate=0.0, default_temperature=0.0)
MESSAGES = [{"role": "user", "content": "Say hello and count to five."}]


def generator(
    tokenizer: Tokenizer, *, model_seed: int = 0, seed: int = 0, diverge_rate: float = 0.0
) -> Generator:
    """A generator with a small median length."""
    return Generator(
        tokenizer, model_seed=model_seed, rng=Random(seed), diverge_rate=diverge_rate, median=40.0, sigma=0.7
    )


class Client:
    """An HTTP client of one engine."""

    def __init__(self, session: aiohttp.ClientSession, running: Running) -> None:
        self.session = session
        self.running = running
        self.url = running.url

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """(status, JSON) of a POST."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(self.url + path, data=data) as answer:
            return answer.status, await answer.json(content_type=None)

    async def get(self, path: str) -> tuple[int, str]:
        """(status, text) of a GET."""
        async with self.session.get(self.url + path) as answer:
            return answer.status, await answer.text()

    async def stream(self, path: str, body: Any) -> str:
        """The whole text of a stream, asked for with `stream: true`."""
        async with self.session.post(self.url + path, json={**body, "stream": True}) as answer:
            assert answer.status == 200
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            return await answer.text()

    async def chunks(self, path: str, body: Any) -> list[Any]:
        """The JSON payloads of a stream that must end with [DONE]."""
        payloads = payloads_of(await self.stream(path, body))
        assert payloads[-1] == "[DONE]"
        return payloads[:-1]


@asynccontextmanager
async def engine(params: EngineParams = FAST) -> AsyncIterator[Client]:
    """A running engine and a client of it."""
    running = await start(params)
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(session, running)
    finally:
        await running.close()


def with_engine(use: Callable[[Client], Awaitable[None]], params: EngineParams = FAST) -> None:
    """Run `use` against a fresh engine, to its end."""

    async def run() -> None:
        async with engine(params) as client:
            await asyncio.wait_for(use(client), 30)

    uvloop.run(run())


async def until(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds; the test's own time limit bounds it."""
    while not condition():
        await asyncio.sleep(0.002)


def payloads_of(sse: str) -> list[Any]:
    """The `data` of each event, parsed; "[DONE]" as it is."""
    lines = [line.removeprefix("data: ") for line in sse.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def names_of(sse: str) -> list[str]:
    """The `event` names in order."""
    return [line.removeprefix("event: ") for line in sse.splitlines() if line.startswith("event: ")]


def captured_stream(name: str) -> list[Any]:
    """The payloads vLLM sent, but for [DONE]."""
    return [p for p in payloads_of((FIXTURES / f"{name}.sse").read_text()) if p != "[DONE]"]


def captured(name: str) -> Any:
    """The JSON vLLM sent."""
    return json.loads((FIXTURES / f"{name}.json").read_text())


def assert_same_keys(ours: Any, theirs: Any, where: str = "$") -> None:
    """Objects have the same keys, all the way down; lists are compared by their first items."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        assert set(ours) == set(theirs), where
        for key, value in theirs.items():
            assert_same_keys(ours[key], value, f"{where}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        assert_same_keys(ours[0], theirs[0], f"{where}[0]")
    elif ours is not None and theirs is not None:
        assert type(ours) is type(theirs), where
