"""What does a request cost in this process, without a kernel: no sockets, no loop, no engine?

    python -m bench.inprocess                                 the sources
    PYTHONPATH=build/fast:. python -P -m bench.inprocess      what `make fast` built

Requests are fed to a worker's connection as a transport would, the engine's answers to its own; the same with
every request copied for an experiment, written down, and both.  The least of many short runs is told, of the
thread's CPU time: what other programs do hardly enters it, so a change of a few per cent can be seen on a
busy machine.  It is no claim about what production pays: caches are warm, and nothing is written to a socket.
"""

import asyncio
import gc
import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from gateway.clients.server import Connection
from gateway.fleets.engine import Engine
from gateway.fleets.fleet import Fleet, Fleets
from gateway.fleets.loads import LoadTable
from gateway.lane_link import LaneLink
from gateway.recording.tap import TappedLane
from gateway.request_id import Ids
from gateway.service import Service
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec, SamplingSpec
from routing.index import PrefixIndex
from routing.policies import prefix_cost
from routing.router import Router
from wire.connection import Connection as Upstream
from wire.origin import Origin
from wire.upstream import Pool

CLIENTS = 32
ENGINES = 2
CHUNKS = 3000
_BOUNDS = {"lane_bytes": 64 << 20, "copy_bytes": 8 << 20}
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
    b"Content-Type: application/json\r\nAuthorization: Bearer none\r\nContent-Length: %d\r\n\r\n%b"
)
ANSWER = (
    b'{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"%b"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":200,"total_tokens":300}}'
)
_COPIED, _WRITTEN = SamplingSpec("bench", "m", 1.0, b"salt"), SamplingSpec("recording", None, 1.0, b"salt")
# What a worker does with each request besides: its name, what it copies it for, and writes down.
KINDS: tuple[tuple[str, tuple[SamplingSpec, ...], SamplingSpec | None], ...] = (
    ("alone", (), None),
    ("copied for an experiment", (_COPIED,), None),
    ("recorded", (), _WRITTEN),
    ("copied and recorded", (_COPIED,), _WRITTEN),
)
EVENT = (
    b'data: {"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}'.ljust(203) + b"\n\n"
)
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)


class Transport:
    """Takes what is written and gives it to nobody."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, pieces: list[bytes]) -> None:
        self.written.extend(pieces)

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else self._end

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None: ...


class Due:
    """What is put off, until then."""

    def __init__(self, at_s: float, call: Callable[[], object]) -> None:
        self.at_s = at_s
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class Soon:
    """The lane's loop and its transport: what is put off is done when asked, what is written goes nowhere."""

    def __init__(self) -> None:
        self._due: list[Due] = []
        self._now_s = 0.0
        self.frames = 0  # that were written

    def time(self) -> float:
        return self._now_s

    def call_soon(self, call: Callable[[], object]) -> Due:
        return self.call_at(self._now_s, call)

    def call_at(self, at_s: float, call: Callable[[], object]) -> Due:
        due = Due(at_s, call)
        self._due.append(due)
        return due

    def run(self) -> None:
        """A turn of the loop: two for each request, of which there are a thousand a second."""
        self._now_s += 0.0005
        waiting, self._due = self._due, []
        for one in waiting:
            if one.call is not None and one.at_s <= self._now_s:
                one.call()
            elif one.call is not None:
                self._due.append(one)

    def writelines(self, pieces: list[bytes]) -> None:
        b"".join(pieces)  # as a transport does at least once
        self.frames += len(pieces)

    def get_write_buffer_size(self) -> int:
        return 0


def _lane(
    soon: Soon, samplings: Sequence[SamplingSpec], record: SamplingSpec | None
) -> tuple[LaneLink, list[LaneLink]]:
    """A worker's lane, and those of it that hand anything over."""

    def link(given: Sequence[SamplingSpec]) -> LaneLink:
        return LaneLink(soon, "", given, **_BOUNDS, sees_all=True)  # type: ignore[arg-type]

    if record is None:
        lane = link(samplings)
        return lane, [lane] if samplings else []
    recording = link((record,))
    tapped = TappedLane(soon, "", samplings, recording, **_BOUNDS, sees_all=True)  # type: ignore[arg-type]
    return tapped, [recording, tapped] if samplings else [recording]


def body(size: int, number: int, *, stream: bool = False) -> bytes:
    """A request's: 8 beginnings, 64 middles, a tail of its own, as in `bench.overhead`."""
    begins = f"You are tenant {number % 8}. ".ljust(64) * (max(0, size - 256) // 64)
    turn = f"turn {number % 64} ".ljust(100) + f"{number:016x}"
    messages = [{"role": "system", "content": begins}, {"role": "user", "content": turn}]
    asked = {"model": "m", "stream": stream, "max_tokens": 200, "messages": messages}
    return json.dumps(asked, separators=(",", ":")).encode()


class Worker:
    """A worker's parts, and both ends of its connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run_dir: Path,
        end: socket.socket,
        samplings: Sequence[SamplingSpec] = (),
        record: SamplingSpec | None = None,
    ) -> None:
        specs = tuple(EngineSpec(id, f"http://127.0.0.1:{9001 + id}", "openai") for id in range(ENGINES))
        LoadTable.create(run_dir / "loads.bin", 1, ENGINES)
        loads = LoadTable.open(run_dir / "loads.bin")
        router = Router(prefix_cost.build(prefix_cost.Params()), PrefixIndex(), Random(1))
        fleet = Fleet(FleetSpec("m", ("m",), False, specs), [Engine(spec) for spec in specs], router)
        pools = {spec.id: Pool(Origin.parse(spec.url), loop=loop) for spec in specs}
        fleets = Fleets([fleet], loads, loads.row(0))
        self.soon = Soon()
        lane, links = _lane(self.soon, samplings, record)
        for link in links:
            link.connection_made(self.soon)  # type: ignore[arg-type]
        self.service = Service(loop, fleets, pools, LimitsSpec(), b"k" * 32, lane)
        self.service.copies = bool(links)
        ids = Ids(b"")
        self.clients = [Connection(self.service, ids) for _ in range(CLIENTS)]
        self._engines: list[Upstream] = []
        for client in self.clients:
            client.connection_made(Transport(end))  # type: ignore[arg-type]
        for pool in pools.values():
            for _ in range(CLIENTS):
                upstream = Upstream(pool)
                upstream.connection_made(Transport(end))  # type: ignore[arg-type]
                pool._all.add(upstream)
                pool._idle.keep(upstream, time.monotonic_ns())
                self._engines.append(upstream)

    def serve(self, requests: list[bytes], answer: bytes) -> None:
        """Relay these, one after the other."""
        for number, request in enumerate(requests):
            client = self.clients[number % CLIENTS]
            client.data_received(request)
            self.soon.run()
            self._asked().data_received(answer)
            client._transport.written.clear()  # type: ignore[attr-defined]
            self.soon.run()

    def stream(self, chunks: int) -> int:
        """Relay a stream and give the ns that its chunks took."""
        self.clients[0].data_received(request(512, 1, stream=True))
        engine = self._asked()
        engine.data_received(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            + CHUNK
        )
        begun_ns = time.thread_time_ns()
        for _ in range(chunks):
            engine.data_received(CHUNK)
        took_ns = time.thread_time_ns() - begun_ns
        engine.data_received(b"0\r\n\r\n")
        self.soon.run()
        self.clients[0]._transport.written.clear()  # type: ignore[attr-defined]
        return took_ns

    def rest(self) -> None:
        """What a second does between: no connection is old."""
        for engine in self._engines:
            engine.idle_since_ns = time.monotonic_ns()

    def _asked(self) -> Upstream:
        engine = next(one for one in self._engines if one.exchange is not None)
        engine.transport.written.clear()  # type: ignore[attr-defined]
        return engine


def answer() -> bytes:
    """An engine's, head and body."""
    said = ANSWER % (b"word " * 180)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(said) + said


def request(size: int, number: int, *, stream: bool = False) -> bytes:
    said = body(size, number, stream=stream)
    return HEAD % (len(said), said)


def least_us(workers: Sequence[Worker], run: Callable[[Worker], int], units: int, runs: int) -> list[float]:
    """The least of so many runs of each worker, which take turns, in µs a unit."""
    least = [float("inf")] * len(workers)
    for _ in range(runs):
        for at, worker in enumerate(workers):
            worker.rest()
            least[at] = min(least[at], run(worker))
    return [one / units / 1e3 for one in least]


def figures(workers: Sequence[Worker], answer: bytes) -> Iterator[tuple[str, list[float]]]:
    """µs of a small request, of one of 32 KB, and of a streamed chunk, of each worker."""
    for name, size, number in (("0.5 KB", 512, 400), ("32 KB", 32 << 10, 200)):
        requests = [request(size, at) for at in range(number)]

        def run(worker: Worker, requests: list[bytes] = requests) -> int:
            begun_ns = time.thread_time_ns()
            worker.serve(requests, answer)
            return time.thread_time_ns() - begun_ns

        yield f"request, {name}", least_us(workers, run, number, 100)
    yield "streamed chunk", least_us(workers, lambda worker: worker.stream(CHUNKS), CHUNKS, 50)


def main() -> None:
    """Print them for a worker that copies nothing, and what copying and writing down add."""
    loop = asyncio.new_event_loop()
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as end,  # which is asked whether anything came
    ):
        workers = [Worker(loop, Path(folder), end, given, record) for _, given, record in KINDS]
        gc.collect()
        gc.freeze()
        print(f"{'µs':18}", *(f"{name:>26}" for name, *_ in KINDS))
        for name, found in figures(workers, answer()):
            print(f"{name:18}", *(f"{one:26.2f}" for one in found))
    loop.close()


if __name__ == "__main__":
    main()
