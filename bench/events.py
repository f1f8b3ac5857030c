"""What do engines' KV events cost, read by every worker itself or by one process for all?

    python -m bench.events [--blocks N]

First the parts: a block taken in, bytes a (block, engine), a look-up in the table as it grows. Then a
worker's loop while 4 engines publish in bursts, as a prefill of long prompts and a replay are: it does a
look-up each millisecond and nothing else, and either subscribes by itself or leaves that to a process beside
it. Lateness is of its timer; CPU is the scheduler's count, of the loop's process and of the one beside it.
"""

import argparse
import asyncio
import gc
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter_ns, process_time_ns, sleep
from typing import Any

import msgpack
import uvloop
import zmq

from bench.procfs import cpu_ns
from gateway.kv.feed import Feed
from gateway.kv.memory import create_board, open_known
from gateway.kv.spec import KvEngine, KvSpec
from gateway.spec import EventsSpec
from routing.events.board import WORDS, Board, State
from routing.events.book import Book
from routing.events.chain import block_chain
from routing.events.decode import decode
from routing.events.publisher import Publisher
from routing.events.reader import Reader
from wire.tasks import Tasks

SIZE = 16
ENGINES = 4
BURSTS, BATCHES, BLOCKS = 8, 400, 16  # of each engine: a burst twice a second
FACTOR = 0x9E37_79B9_7F4A_7C15


def message(rng: Random, blocks: int) -> bytes:
    """A batch with one BlockStored of so many blocks, as vLLM writes it."""
    stored = {
        "type": "BlockStored",
        "block_hashes": [rng.getrandbits(64) for _ in range(blocks)],
        "parent_block_hash": None,
        "token_ids": [rng.randrange(128_000) for _ in range(blocks * SIZE)],
        "block_size": SIZE,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * blocks,
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }
    packed: bytes = msgpack.packb([1.5, [stored], 0])
    return packed


class Plain:
    """A board and its tables in this process's own memory."""

    def __init__(self) -> None:
        self._board = bytearray(WORDS * 8)
        self._table = bytearray()
        self.book = Book(self.board(), self.new, lambda: FACTOR)
        self.book.beat(1)

    def board(self) -> Board:
        return Board(memoryview(self._board).cast("Q"))

    def new(self, _generation: int, words: int) -> memoryview:
        self._table = bytearray(words * 8)
        return memoryview(self._table).cast("Q")

    def reader(self) -> Reader:
        reader = Reader(self.board(), lambda _: memoryview(self._table).cast("Q"))
        reader.look(1)
        return reader


def parts(most: int) -> None:
    """Costs of one block and one look-up, by how many blocks are held."""
    rng = Random(1)
    print("blocks held    take in, us/block    of it decoding    bytes/(block, engine)    match of 512, us")
    for count in (1_000, 100_000, most):
        gc.collect()
        before = resident_bytes()
        plain = Plain()
        publisher = Publisher(plain.book.open(0, 0), can_replay=False, most_blocks=1 << 24)
        chain_tokens = [rng.randrange(128_000) for _ in range(512 * SIZE)]
        taken_ns, decoding_ns, number = 0, 0, 0
        while publisher.held < count:
            batch = message(rng, 16)
            start = process_time_ns()
            publisher.heard(number, batch)
            heard = process_time_ns()
            decode(batch)
            decoding_ns += process_time_ns() - heard
            taken_ns += heard - start
            number += 1
        used = (resident_bytes() - before) / publisher.held
        marked = plain.book.open(1, 0)
        chain = block_chain(chain_tokens, SIZE)
        for name in chain[:300]:
            marked.add(name)
        marked.tell(State.EXACT, SIZE, 0, 300)
        reader = plain.reader()
        asked = best_us(lambda reader=reader, chain=chain: reader.match(chain, SIZE), 2_000)  # type: ignore[misc]
        per = 1e3 * publisher.held
        shown = f"{used:24.0f}" if count >= 100_000 else f"{'':24}"
        print(f"{publisher.held:11} {taken_ns / per:19.2f} {decoding_ns / per:17.2f} {shown} {asked:19.1f}")


def best_us(call: Callable[[], object], times: int) -> float:
    """The least of many, for the machine is shared."""
    found: list[int] = []
    for _ in range(times):
        start = perf_counter_ns()
        call()
        found.append(perf_counter_ns() - start)
    return min(found) / 1e3


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def publish(ready: Any, go: Any) -> None:
    """A process that is all the engines."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets = [context.socket(zmq.PUB) for _ in range(ENGINES)]
    rng = Random(2)
    for socket in sockets:
        socket.setsockopt(zmq.SNDHWM, 100_000)
    ready.put([socket.bind_to_random_port("tcp://127.0.0.1") for socket in sockets])
    batches = [[message(rng, BLOCKS) for _ in range(BATCHES)] for _ in sockets]
    go.wait()
    for burst in range(BURSTS):
        for at, socket in enumerate(sockets):
            for n, batch in enumerate(batches[at]):
                number = (burst * BATCHES + n).to_bytes(8, "big")
                socket.send_multipart((b"kv", number, batch))
        sleep(0.5)
    sleep(1)
    context.destroy(0)


def engines(ports: list[int]) -> tuple[KvEngine, ...]:
    return tuple(
        KvEngine(n, f"http://127.0.0.1:{port}", "vllm", EventsSpec(publish=f"tcp://127.0.0.1:{port}"))
        for n, port in enumerate(ports)
    )


def beside(run_dir: str, ports: list[int], until: Any) -> None:
    """The process that reads for all."""
    os.nice(10)
    uvloop.run(reading(run_dir, ports, until.is_set))


async def reading(run_dir: str, ports: list[int], over: Callable[[], bool]) -> Feed:
    tasks = Tasks()
    feed = Feed(Path(run_dir), tasks, _Quiet())
    feed.renew(KvSpec(run_dir, engines(ports)))
    while not over():
        feed.look()
        await asyncio.sleep(0.2)
    await tasks.cancel()
    return feed


class _Quiet:
    def info(self, *_: object, **__: object) -> None:
        pass

    error = warning = info


async def looped(
    run_dir: str, ports: list[int], over: Callable[[], bool], *, inside: bool
) -> dict[str, float]:
    """A worker's loop: how late its timer is, and what it costs."""
    late_ns: list[int] = []
    chain = block_chain(range(512 * SIZE), SIZE)
    known = open_known(Path(run_dir))
    assert known is not None
    reads = asyncio.get_running_loop().create_task(reading(run_dir, ports, over)) if inside else None
    start_ns = cpu_ns([os.getpid()])
    while not over():
        due = perf_counter_ns() + 1_000_000
        await asyncio.sleep(0.001)
        late_ns.append(perf_counter_ns() - due)
        known.match(chain, SIZE)
    if reads is not None:
        await reads
    late_ns.sort()
    took = (cpu_ns([os.getpid()]) - start_ns) / 1e9
    at = {f"p{share}": late_ns[int(len(late_ns) * share / 100)] / 1e6 for share in (50, 99)}
    return {"cpu_s": took, **at, "worst": late_ns[-1] / 1e6, "rss_mb": resident_bytes() / 1e6}


def bursts(*, inside: bool) -> None:
    """One run, and what it showed."""
    ready, go, until = multiprocessing.Queue(), multiprocessing.Event(), multiprocessing.Event()  # type: ignore[var-annotated]
    engine = multiprocessing.Process(target=publish, args=(ready, go))
    engine.start()
    ports = ready.get()
    with tempfile.TemporaryDirectory(prefix="sl") as run_dir:
        create_board(Path(run_dir))
        reader = None
        other_ns = 0
        if not inside:
            reader = multiprocessing.Process(target=beside, args=(run_dir, ports, until))
            reader.start()

        async def life() -> dict[str, float]:
            loop = asyncio.get_running_loop()
            loop.call_later(1.5, go.set)
            over = lambda: not engine.is_alive()  # noqa: E731
            found = await looped(run_dir, ports, over, inside=inside)
            nonlocal other_ns
            if reader is not None and reader.pid is not None:
                other_ns = cpu_ns([reader.pid])
            return found

        found = uvloop.run(life())
        until.set()
        for process in (reader, engine):
            if process is not None:
                process.join(10)
    how = "in the worker" if inside else "in a process beside it"
    print(
        f"{how:24} {found['cpu_s']:9.2f} {other_ns / 1e9:13.2f} {found['p50']:10.2f} {found['p99']:8.2f}"
        f" {found['worst']:8.1f} {found['rss_mb']:9.0f}"
    )


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(prog="python -m bench.events", description=__doc__)
    parser.add_argument("--blocks", type=int, default=1_000_000, help="blocks of the largest table")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    parts(asked.blocks)
    print(f"\n{BURSTS} bursts, half a second apart, of {ENGINES} x {BATCHES} messages of {BLOCKS} blocks")
    print("events are read            CPU, s  beside it, s  late: p50      p99    worst ms   RSS, MB")
    for _ in range(asked.rounds):
        for inside in (True, False):
            bursts(inside=inside)


if __name__ == "__main__":
    main()
