"""Foretold against told: the tokens that routing says an engine has cached, and the engine's `cached_tokens`.

Needs running engines that publish KV events and tell cached tokens, such as vLLM with `--kv-events-config`
and `--enable-prompt-tokens-details`.  Conversations run side by side; each request is foretold just before it
is sent, and learned as the gateway learns: by /tokenize after dispatch, within its budget.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import structlog

from bench import figures
from bench.bridge.errors import HEADS, Told, distribution, row
from bench.bridge.talks import KINDS, TURNS, Ask, Talks
from gateway.bridge.asker import Asker
from gateway.bridge.frames import SOCKET, EnginePlace, FleetPlace, Fleets
from gateway.bridge.lessons import Lessons
from gateway.bridge.link import BridgeLink
from gateway.bridge.school import School
from gateway.kv.feed import Feed
from gateway.kv.memory import create_board, open_board, open_table
from gateway.kv.spec import KvEngine, KvSpec
from gateway.spec import EventsSpec
from routing.bridge.fit import CHAT, Fit, fit
from routing.bridge.novelty import Budget
from routing.events.chain import block_chain
from routing.events.reader import Reader
from routing.index import PrefixIndex
from routing.precise import Precise
from routing.prompt import read
from wire.tasks import Tasks

_KEY = b"bench"


class _TooLong(Exception):
    """The conversation has outgrown the engine."""


class Bench:
    """Engines, what is known of them, and what they said."""

    def __init__(self, given: argparse.Namespace, run_dir: Path, tasks: Tasks) -> None:
        self.given = given
        self.rng = Random(given.seed)
        self.told: list[Told] = []
        self.counts: dict[tuple[str, ...], int] = {}
        self.held_us: list[float] = []
        log = structlog.wrap_logger(structlog.PrintLogger())
        create_board(run_dir)
        self.feed = Feed(run_dir, tasks, log)
        events = EventsSpec()
        self.feed.renew(
            KvSpec(
                str(run_dir), tuple(KvEngine(at, url, "vllm", events) for at, url in enumerate(given.engine))
            )
        )
        board = open_board(run_dir)
        assert board is not None
        self.reader = Reader(board, lambda generation: open_table(run_dir, generation))
        self.precise = Precise(self.reader)
        self.index = PrefixIndex()
        self.school = School(run_dir, log)
        self.link = BridgeLink(asyncio.get_running_loop(), str(run_dir / SOCKET), self._heard, self.counts)
        rate = given.bytes_per_s * len(given.engine)
        self.lessons = Lessons("f", self.precise, self.link.tell, Budget(rate, time.monotonic()), self.counts)
        places = tuple(EnginePlace(at, url) for at, url in enumerate(given.engine))
        self.askers = [Asker(place) for place in places]
        self.link.renew(Fleets((FleetPlace("f", given.model, (), places),)))

    def _heard(self, told: Any) -> None:
        self.lessons.heard(told)

    async def look(self) -> None:
        """What the gateway does once a second."""
        while True:
            self.feed.look()
            self.reader.look(time.monotonic_ns())
            self.precise.look()
            await asyncio.sleep(0.2)

    async def ready(self) -> None:
        """Wait until the engines' events are heard and the template was probed."""
        async with asyncio.timeout(120):
            while not self.lessons.is_probed:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            async with aiohttp.ClientSession() as session:
                while len(self.reader.block_sizes()) < len(self.given.engine):
                    for at in range(len(self.given.engine)):  # an engine that has stored nothing has no size
                        warm = Ask(
                            "warm", 0, [{"role": "user", "content": f"warm {time.time_ns()} " * 40}], None
                        )
                        await self._post(session, at, warm.body(self.given.model, 1))
                    await asyncio.sleep(0.5)
            self.precise.look()

    async def _post(self, session: aiohttp.ClientSession, engine: int, body: bytes) -> tuple[int, int]:
        headers = {"content-type": "application/json"}
        async with session.post(self.given.engine[engine] + CHAT, data=body, headers=headers) as answer:
            whole = await answer.json()
            if answer.status == 400 and "maximum context length" in str(whole):
                raise _TooLong
            if answer.status != 200:
                raise SystemExit(f"an engine answered {answer.status}: {whole}")
        usage = whole["usage"]
        details = usage.get("prompt_tokens_details") or {}
        if details.get("cached_tokens") is None:
            raise SystemExit("the engine does not tell cached tokens: --enable-prompt-tokens-details")
        return usage["prompt_tokens"], details["cached_tokens"]

    async def ask(self, session: aiohttp.ClientSession, asked: Ask, last: int | None) -> int:
        """Foretell, send, learn, compare; the engine it went to."""
        body = asked.body(self.given.model, self.given.max_tokens)
        oracle = await self._oracle(body) if self.given.oracle else None
        prompt = read(CHAT, body, _KEY)
        began = time.perf_counter()
        held = self.precise.held(prompt)
        self.held_us.append((time.perf_counter() - began) * 1e6)
        engine = self._choose(held, last)
        foretold = self.precise.foretold(engine)
        true = None
        if oracle is not None:
            size = self.reader.block_sizes().get(engine, 1)
            true = min(self.reader.match(oracle[0], size).get(engine, 0), (oracle[1] - 1) // size) * size
        posting = asyncio.get_running_loop().create_task(self._post(session, engine, body))
        self.lessons.sent_prompt(prompt, engine, CHAT, body, time.monotonic())
        prompt_tokens, cached = await posting
        self.precise.answered(prompt, engine, prompt_tokens, cached)
        self.told.append(Told(asked.kind, asked.turn, engine, foretold, cached, prompt_tokens, true))
        return engine

    async def _oracle(self, body: bytes) -> tuple[list[int], int]:
        fitted = fit(CHAT, body)
        assert isinstance(fitted, Fit)
        ids = await self.askers[0].ids(fitted) or []
        size = next(iter(self.reader.block_sizes().values()), 1)
        return block_chain(ids, size), len(ids)

    def _choose(self, held: Any, last: int | None) -> int:
        """Mostly where most is held, else anywhere: so that engines differ in what they hold."""
        count = len(self.given.engine)
        if count == 1:
            return 0
        if last is None or self.rng.random() < 0.2:
            return self.rng.randrange(count)
        return max(range(count), key=lambda at: (held.get(at, 0), at == last))

    async def run(self) -> None:
        """All conversations, some at a time."""
        talks = Talks(self.rng, self.given.scale, f"Run {time.time_ns()}. ")
        kinds = [kind for kind in self.given.kinds.split(",") for _ in range(self.given.talks)]
        self.rng.shuffle(kinds)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(600)) as session:
            turns = asyncio.Semaphore(self.given.concurrency)

            async def talk() -> None:
                while kinds:
                    last: int | None = None
                    for asked in talks.one(kinds.pop()):
                        try:
                            async with turns:
                                await asyncio.sleep(self.given.settle)
                                last = await self.ask(session, asked, last)
                        except _TooLong:
                            break
                        await asyncio.sleep(self.given.pause * 2 * self.rng.random())

            async with asyncio.TaskGroup() as group:
                for _ in range(self.given.alive or self.given.concurrency):
                    group.create_task(talk())

    def report(self) -> str:
        """The tables."""
        block = max(self.reader.block_sizes().values(), default=16)
        kinds = list(dict.fromkeys(one.kind for one in self.told))
        rows = [row("all", self.told, block)]
        rows += [row(kind, [one for one in self.told if one.kind == kind], block) for kind in kinds]
        for turn in range(TURNS):
            rows += [row(f"turn {turn + 1}", [one for one in self.told if one.turn == turn], block)]
        for at in range(len(self.given.engine) if len(self.given.engine) > 1 else 0):
            rows += [row(f"engine {at}", [one for one in self.told if one.engine == at], block)]
        if self.given.oracle:
            rows += [row("true ids, events", self.told, block, lambda one: (one.oracle or 0) - one.cached)]
        accuracy = self.precise.accuracy
        links = [len(bridge) for bridge in self.precise.bridges.values()]
        lines = [
            figures.table(list(HEADS), rows),
            "foretold less cached, tokens:",
            distribution(self.told),
            f"block size {block}; trusted: {accuracy.is_trusted}; lengths that differ: {accuracy.mismatched};"
            f" unknown prompts: {self.precise.unlearned}; links: {links}",
            f"lookup µs p50 {sorted(self.held_us)[len(self.held_us) // 2]:.0f}, most {max(self.held_us):.0f}",
            f"school: {dict(self.school.counts)}; skipped: {dict(self.counts)}",
            f"tail {[bridge.tail_tokens for bridge in self.precise.bridges.values()]},"
            f" lowered {[bridge.lowered for bridge in self.precise.bridges.values()]},"
            f" epochs {[bridge.epoch for bridge in self.precise.bridges.values()]}",
        ]
        return "\n".join(lines)


async def run(given: argparse.Namespace) -> Bench:
    """One run."""
    tasks = Tasks()
    with tempfile.TemporaryDirectory(prefix="sl") as name:
        bench, stop = Bench(given, Path(name), tasks), asyncio.Event()
        tasks.spawn(bench.school.serve(stop), name="school")
        tasks.spawn(bench.link.keep_connected(), name="link")
        tasks.spawn(bench.look(), name="look")
        try:
            await bench.ready()
            await bench.run()
            print(bench.report())
        finally:
            for asker in bench.askers:
                await asker.close()
            stop.set()
            await tasks.cancel()
            bench.feed.close()
    return bench


def parsed(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.bridge", description=__doc__)
    parser.add_argument("--engine", action="append", required=True, help="its URL; repeat for more engines")
    parser.add_argument("--model", default="tiny", help="the model's name")
    parser.add_argument("--kinds", default="chat", help=f"of conversations, with commas: {', '.join(KINDS)}")
    parser.add_argument("--talks", type=int, default=60, help="conversations of each kind")
    parser.add_argument("--concurrency", type=int, default=1, help="requests at a time")
    parser.add_argument("--alive", type=int, default=0, help="conversations at a time, if more than that")
    parser.add_argument("--pause", type=float, default=0.3, help="mean seconds between a talk's requests")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds for events to come, before each")
    parser.add_argument("--max-tokens", type=int, default=8, help="of an answer")
    parser.add_argument("--scale", type=float, default=1.0, help="of all texts' lengths")
    parser.add_argument("--bytes-per-s", type=float, default=131072.0, help="learned from each engine")
    parser.add_argument("--oracle", action="store_true", help="also foretell from the true token ids")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    asyncio.run(run(parsed()))
