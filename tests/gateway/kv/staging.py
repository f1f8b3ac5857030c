"""The reader of KV events in the test's own process, in front of emulated engines and scripted publishers."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any

import uvloop
import zmq
import zmq.asyncio

from emulator.params import EngineParams
from emulator.server import Running, start
from gateway.kv.feed import Feed
from gateway.kv.heard import Heard
from gateway.kv.memory import create_board, open_known
from gateway.kv.spec import KvEngine, KvSpec
from gateway.spec import EventsSpec
from routing.events.board import State
from routing.events.chain import block_chain
from routing.events.reader import Reader
from tests import support
from tests.routing.events.memory import payload, stored
from wire.tasks import Tasks

FAST = EngineParams(
    speed=50.0, jitter=0.0, hiccup_rate=0.0, num_blocks=256, max_model_len=2048, kv_events_port=0
)
SIZE = 16
_END = b"\xff" * 8


async def until(true: Callable[[], bool], timeout_s: float = 40) -> None:
    """As `support.until`, for a machine that is busy."""
    await support.until(true, timeout_s)


class Log:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **more: Any) -> None:
        self.said.append((event, more))

    error = warning = info


class Fed:
    """A feed, and a reader of what it writes."""

    def __init__(self, feed: Feed, reader: Reader, log: Log, run_dir: Path) -> None:
        self.feed = feed
        self.reader = reader
        self.log = log
        self.run_dir = run_dir

    def renew(self, *engines: KvEngine) -> None:
        self.feed.renew(KvSpec(str(self.run_dir), engines))

    def heard(self, engine: int = 0, rank: int = 0) -> Heard | None:
        return next((one for of, one in self.feed.heard if of.id == engine and one.source.rank == rank), None)

    def state(self, engine: int = 0, rank: int = 0) -> State | None:
        heard = self.heard(engine, rank)
        return None if heard is None else heard.publisher.state

    async def exact(self, engine: int = 0, rank: int = 0) -> Heard:
        """Wait until a publisher is, and its last message was heard."""
        await until(lambda: self.state(engine, rank) is State.EXACT, 20)
        heard = self.heard(engine, rank)
        assert heard is not None
        return heard

    def match(self, tokens: Sequence[int], size: int = SIZE, **of: str) -> dict[int, int]:
        self.reader.look(monotonic_ns())
        return self.reader.match(block_chain(tokens, size, **of), size)


@asynccontextmanager
async def feeding(run_dir: Path, *engines: KvEngine) -> AsyncIterator[Fed]:
    """Listen to these engines until the end; nothing may have been raised by a task."""
    failed: list[BaseException] = []
    tasks, log = Tasks(lambda _name, error: failed.append(error)), Log()
    create_board(run_dir)
    feed = Feed(run_dir, tasks, log)
    reader = open_known(run_dir)
    assert reader is not None
    fed = Fed(feed, reader, log, run_dir)
    fed.renew(*engines)

    async def tick() -> None:
        while True:
            feed.look()
            await asyncio.sleep(0.05)

    tasks.spawn(tick(), name="tick")
    try:
        yield fed
    finally:
        await tasks.cancel()
        feed.close()
        reader.close()
        assert not failed


def engine(url: str, id: int = 0, kind: str = "vllm", **events: Any) -> KvEngine:
    return KvEngine(id, url, kind, EventsSpec(**events), "m")


async def emulated(stack: AsyncExitStack, params: EngineParams = FAST, port: int = 0) -> Running:
    """An emulated engine that ends with the test."""
    running = await start(params, port=port)
    closed = False

    async def close() -> None:
        nonlocal closed
        if not closed:
            closed = True
            await original()

    original, running.close = running.close, close  # type: ignore[method-assign]
    stack.push_async_callback(running.close)
    return running


class Scripted:
    """A publisher of which a test says each message: a PUB, and a ROUTER that replays in either shape."""

    def __init__(self, port: int = 0, *, kept: bool = True, shape: int = 4, topic: bytes = b"kv") -> None:
        self._context = zmq.asyncio.Context()
        plain: zmq.Context[zmq.Socket[bytes]] = zmq.Context.shadow(self._context)
        self._publisher: zmq.Socket[bytes] = plain.socket(zmq.PUB)
        self._router = self._context.socket(zmq.ROUTER)
        for one in (self._publisher, self._router):
            one.setsockopt(zmq.LINGER, 0)
        self.port = port or self._publisher.bind_to_random_port("tcp://127.0.0.1")
        if port:
            self._publisher.bind(f"tcp://127.0.0.1:{port}")
        self.replay_port = self._router.bind_to_random_port("tcp://127.0.0.1")
        self.topic = topic
        self.number = 0
        self.asked: list[int] = []
        self._kept: list[tuple[int, bytes]] = []
        self._keeps = kept
        self._shape = shape
        self._task = asyncio.get_running_loop().create_task(self._replays())

    @property
    def publish_at(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def replay_at(self) -> str:
        return f"tcp://127.0.0.1:{self.replay_port}"

    def publish(self, *events: Any, lost: bool = False, data: bytes | None = None) -> None:
        message = payload(*events) if data is None else data
        if self._keeps:
            self._kept.append((self.number, message))
        if not lost:
            self.send(self.topic, self.number.to_bytes(8, "big"), message)
        self.number += 1

    def send(self, *frames: bytes) -> None:
        self._publisher.send_multipart(frames, zmq.DONTWAIT)

    def store(self, word: int, *, lost: bool = False) -> None:
        """A block of its own, of one size of tokens."""
        self.publish(stored([1000 + word], None, [word] * SIZE, SIZE), lost=lost)

    def connect(self, to: str) -> None:
        """Publish there, too, where somebody listens."""
        self._publisher.connect(to)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        self._publisher.close()
        self._router.close()
        self._context.term()

    async def _replays(self) -> None:
        while True:
            peer, empty, start = await self._router.recv_multipart()
            self.asked.append(int.from_bytes(start, "big"))
            topic = [self.topic] if self._shape == 4 else []
            for number, message in self._kept:
                if number >= self.asked[-1]:
                    frames = [peer, empty, *topic, number.to_bytes(8, "big"), message]
                    await self._router.send_multipart(frames)
            end = [b""] if self._shape == 4 else []
            await self._router.send_multipart([peer, empty, *end, _END, b""])


def neighbours(count: int = 2) -> int:
    """The first of so many free ports in a row."""
    while True:
        with ExitStack() as taken:
            port: int = taken.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for more in range(1, count):
                    taken.enter_context(socket.create_server(("127.0.0.1", port + more)))
            except (OSError, OverflowError):
                continue
            return port


def run(test: Callable[[AsyncExitStack], Any]) -> None:
    """Run a test; what it has begun is ended with it."""

    async def whole() -> None:
        async with AsyncExitStack() as stack:
            await test(stack)

    uvloop.run(whole())


async def scripted(stack: AsyncExitStack, **how: Any) -> Scripted:
    """A scripted publisher that ends with the test."""
    publisher = Scripted(**how)
    stack.push_async_callback(publisher.close)
    return publisher
