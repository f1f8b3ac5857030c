"""Foretold against told: the tokens that routing says an engine has cached, and the engine's `cached_tokens`.

Needs running engines that publish KV events and tell cached tokens, such as vLLM with `--kv-events-config`
and `--enable-prompt-tokens-details`.  Conversations run side by side; each request is foretold just before it
is sent, and learned as the gateway learns: by /tokenize after dispatch, within its budget.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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
from gateway.fleets.reported import reported
from gateway.kv.feed import Feed
from gateway.kv.memory import create_board, open_board, open_table
from gateway.kv.spec import KvEngine, KvSpec
from gateway.spec import EventsSpec
from routing.bridge.fit import CHAT, Fit, fit
from routing.bridge.novelty import Budget
from routing.events.chain import block_chain
from routing.events.reader import Reader
from routing.index import PrefixIndex
from routing.policy import chosen
from routing.precise import Precise
from routing.prompt import read
from routing.router import Router
from routing.types import Choice, EngineLoad, Prompt
from wire.tasks import Tasks

_KEY = b"bench"


class _TooLong(Exception):
    """The conversation has outgrown the engine."""


class _Mostly:
    """The engine that holds most."""

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        most = max(engines, key=lambda one: cached.get(one.id, 0))
        return chosen(most, prompt, cached, "holds most")


class _Running:
    """One request's load, as the gateway charges it."""

    def __init__(self, bench: "Bench", choice: Choice, prompt: Prompt) -> None:
        self._bench = bench
        self._prompt = prompt
        self._load = bench.loads[choice.engine]
        self._pending_bytes = choice.uncached_bytes
        self._load.inflight += 1
        self._load.awaiting += 1
        self._load.pending_bytes += choice.uncached_bytes
        self._awaits = True

    def answered(self) -> None:
        """Its first token came."""
        if self._awaits:
            self._awaits = False
            self._load.awaiting -= 1
            self._load.pending_bytes -= self._pending_bytes
            self._bench.router.answered(self._load.id, self._prompt)

    def ended(self) -> None:
        """It is over."""
        self.answered()
        self._load.inflight -= 1
        self._bench.router.ended(self._load.id, self._prompt)


class Bench:
    """Engines, what is known of them, and what they said."""

    def __init__(self, given: argparse.Namespace, run_dir: Path, tasks: Tasks) -> None:
        self.given = given
        self.rng = Random(given.seed)
        self.adapters = tuple(filter(None, given.loras.split(",")))
        self.told: list[Told] = []
        self.counts: dict[tuple[str, ...], int] = {}
        self.held_us: list[float] = []
        self.said_bytes = self.said_tokens = 0
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
        self.router = Router(_Mostly(), PrefixIndex(), self.rng)
        self.loads = [EngineLoad(at, 0, 0) for at in range(len(given.engine))]
        self.school = School(run_dir, log)
        self.link = BridgeLink(asyncio.get_running_loop(), str(run_dir / SOCKET), self._heard, self.counts)
        rate = given.bytes_per_s * len(given.engine)
        self.lessons = Lessons("f", self.precise, self.link.tell, Budget(rate, time.monotonic()), self.counts)
        places = tuple(EnginePlace(at, url) for at, url in enumerate(given.engine))
        self.askers = [Asker(place) for place in places]
        self.link.renew(Fleets((FleetPlace("f", given.model, self.adapters, places),)))
        self.router.know(self.lessons)

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
                for at, url in enumerate(self.given.engine):
                    async with session.get(url + "/metrics") as answer:
                        self.loads[at].kv_tokens = reported(await answer.read()).kv_tokens
            self.precise.look()

    async def _post(
        self,
        session: aiohttp.ClientSession,
        engine: int,
        body: bytes,
        began: Callable[[], None] = lambda: None,
    ) -> tuple[int, int]:
        """Tokens of the prompt, and those of them that were cached; `began` is called at the first token."""
        headers = {"content-type": "application/json"}
        usage: dict[str, Any] = {}
        async with session.post(self.given.engine[engine] + CHAT, data=body, headers=headers) as answer:
            if answer.status == 400 and "maximum context length" in await answer.text():
                raise _TooLong
            if answer.status != 200:
                raise SystemExit(f"an engine answered {answer.status}: {await answer.text()}")
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    said = json.loads(line[6:])
                    usage = said.get("usage") or usage
                    if said.get("choices"):
                        began()
        if (usage.get("prompt_tokens_details") or {}).get("cached_tokens") is None:
            raise SystemExit("the engine does not tell cached tokens: --enable-prompt-tokens-details")
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    async def ask(self, session: aiohttp.ClientSession, asked: Ask, last: int | None) -> int:
        """Foretell, send, learn, compare; the engine it went to."""
        body = asked.body(self.given.model, self.given.max_tokens)
        oracle = await self._oracle(body) if self.given.oracle else None
        prompt = read(CHAT, body, _KEY)
        began = time.perf_counter()
        choice = self.router.choose(prompt, self._offered(last), time.monotonic())
        self.held_us.append((time.perf_counter() - began) * 1e6)
        engine = choice.engine
        foretold = self.precise.foretold(engine)
        true = None
        if oracle is not None:
            size = self.reader.block_sizes().get(engine, 1)
            true = min(self.reader.match(oracle[0], size).get(engine, 0), (oracle[1] - 1) // size) * size
        running = _Running(self, choice, prompt)
        posting = asyncio.get_running_loop().create_task(self._post(session, engine, body, running.answered))
        self.lessons.sent_prompt(prompt, engine, CHAT, body, time.monotonic())
        try:
            prompt_tokens, cached = await posting
        finally:
            running.ended()
        self.precise.answered(prompt, engine, prompt_tokens, cached)
        self._size(engine, prompt.ends[-1], prompt_tokens)
        self.told.append(Told(asked.kind, asked.turn, engine, foretold, cached, prompt_tokens, true))
        return engine

    def _size(self, engine: int, prompt_bytes: int, prompt_tokens: int) -> None:
        """As the gateway does: what is remembered is as large as the engine's KV cache."""
        self.said_bytes += prompt_bytes
        self.said_tokens += prompt_tokens
        kv_tokens = self.loads[engine].kv_tokens
        if kv_tokens is not None:
            self.router.holds(engine, int(kv_tokens * self.said_bytes / self.said_tokens))

    async def _oracle(self, body: bytes) -> tuple[list[int], int]:
        fitted = fit(CHAT, body)
        assert isinstance(fitted, Fit)
        ids = await self.askers[0].ids(fitted) or []
        size = next(iter(self.reader.block_sizes().values()), 1)
        return block_chain(ids, size), len(ids)

    def _offered(self, last: int | None) -> list[EngineLoad]:
        """Mostly all engines, else any one: so that they differ in what they hold."""
        if last is None or self.rng.random() < 0.2:
            return [self.rng.choice(self.loads)]
        return self.loads

    async def run(self) -> None:
        """All conversations, some at a time."""
        talks = Talks(self.rng, self.given.scale, f"Run {time.time_ns()}. ", self.adapters)
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
            f"as judged: {accuracy.too_high} of {accuracy.answers} too high; off by"
            f" {accuracy.error_tokens} tokens in all, of {accuracy.cached_tokens}",
            f"block size {block}; trusted: {accuracy.is_trusted}; lengths that differ: {accuracy.mismatched};"
            f" unknown prompts: {self.precise.unlearned}; links: {links}",
            f"lookup µs p50 {sorted(self.held_us)[len(self.held_us) // 2]:.0f}, most {max(self.held_us):.0f}",
            f"school: {dict(self.school.counts)}; skipped: {dict(self.counts)}",
            f"tail {[bridge.tail_tokens for bridge in self.precise.bridges.values()]},"
            f" lowered {[bridge.lowered for bridge in self.precise.bridges.values()]},"
            f" shares {[round(self.precise.share(at), 2) for at in range(len(self.loads))]},"
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
    parser.add_argument("--loras", default="", help="names of LoRA adapters, with commas")
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
