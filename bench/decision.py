"""What does one decision cost: naming the prompt, who holds how much of it, the choice, remembering it?

    python -m bench.decision
    PYTHONPATH=build/fast:. python -P -m bench.decision       the compiled form (`make fast`)

The router as workers have it: `prefix_cost` with learned rates, and every engine holds something of every
prompt. "alike": all of it but the last message; "ends": each another part of it. "sent": what was sent there
is remembered, as it is where engines publish nothing. "known": they publish KV events, whose blocks are
looked up in a table, and what text becomes which blocks was learned; "waits": prompts wait at every engine,
and its cache is full, so that what it holds may not last. "name" is reading the body and hashing its text,
which comes before all that and is the same for all.

Chats of 16 turns, each asked with a new last message. "warm": one chat, over and over; "another": not the one
before; "cold": and all that the processor's caches held was driven out in between, the interpreter too, but
for the body, which has just been received.
"""

import argparse
import gc
import json
import sys
from array import array
from collections.abc import Callable, Sequence
from random import Random
from statistics import median, quantiles
from time import perf_counter_ns
from typing import NamedTuple

from bench.events import Plain
from routing import prompt as prompts
from routing import router as routers
from routing.events.board import State
from routing.events.chain import block_chain
from routing.index import PrefixIndex
from routing.policies import prefix_cost
from routing.precise import Precise
from routing.router import Router
from routing.types import EngineLoad, Prompt, Rates

PATH, KEY = "/v1/chat/completions", b"k" * 32
TURNS, BLOCK, TOKEN_BYTES = 16, 16, 4
WARM, COLD = 500, 150
CHATS, MOST_TOKENS = 24, 1 << 20
ELSE_BYTES = 64 << 20
WORDS = ("router", "prefix", "block", "engine", "the", "of", "held", "prompt", "cache", "what", "is", "where")


class Scene(NamedTuple):
    name: str
    is_known: bool = False
    has_ends: bool = False
    waits: bool = False


SCENES = (
    Scene("sent, alike"),
    Scene("sent, ends", has_ends=True),
    Scene("known, alike", is_known=True),
    Scene("known, ends", is_known=True, has_ends=True),
    Scene("known, ends, waits", is_known=True, has_ends=True, waits=True),
)


class Chat:
    """A talk of so many tokens: its messages, and the ids that they become."""

    def __init__(self, rng: Random, tokens: int) -> None:
        self._rng = rng
        each = tokens * TOKEN_BYTES // TURNS
        self.messages = [
            {"role": "user" if turn % 2 else "assistant", "content": self._said(each)}
            for turn in range(TURNS)
        ]
        self.ids = [rng.randrange(128_000) for _ in range(tokens)]
        self.blocks = array("Q", block_chain(self.ids, BLOCK))

    def _said(self, size: int) -> str:
        drawn = " ".join(self._rng.choices(WORDS, k=size // 4))
        return f"{self._rng.getrandbits(64):016x} {drawn}"[:size]

    def body(self, turns: int, *more: str) -> bytes:
        """A request with the first turns, and with another message."""
        said = self.messages[:turns] + [{"role": "user", "content": one} for one in more]
        return json.dumps({"model": "m", "stream": True, "messages": said}, separators=(",", ":")).encode()

    def asked(self) -> bytes:
        """A request that nobody has sent yet."""
        return self.body(TURNS, self._said(500))


def read(body: bytes) -> Prompt:
    return prompts.read(PATH, body, KEY)


class World:
    """A router, its engines, and what they hold of some chats."""

    def __init__(self, scene: Scene, engines: int, chats: Sequence[Chat]) -> None:
        self.fleet = [_engine(number, awaiting=int(scene.waits)) for number in range(engines)]
        index = PrefixIndex(1 << 40)
        self.router = Router(prefix_cost.build(prefix_cost.Params()), index, Random(1))
        for chat in chats:
            whole = read(chat.body(TURNS))
            for number in range(engines):
                links = _held(len(whole.chain), number, engines, scene)
                part = Prompt("m", whole.chain[:links], whole.ends[:links], 1, 0, True, None)
                self.router.again(number, part, 0.0)
                self.router.answered(number, part)
                self.router.ended(number, part)
        if scene.waits:
            for one in self.fleet:
                self.router.holds(one.id, int(index.held_bytes(one.id) * 1.05))
        self._plain = Plain()
        if scene.is_known:
            self._know(scene, engines, chats)

    def _know(self, scene: Scene, engines: int, chats: Sequence[Chat]) -> None:
        for number in range(engines):
            marked, count = self._plain.book.open(number, 0), 0
            for chat in chats:
                names = chat.blocks[: _held(len(chat.blocks), number, engines, scene)]
                count += len(names)
                for name in names:
                    marked.add(name)
            marked.tell(State.EXACT, BLOCK, 0, count)
        precise = Precise(self._plain.reader())
        precise.look()
        for chat in chats:
            for turn in range(1, TURNS + 1):
                told = read(chat.body(turn))
                count = len(chat.ids) * turn // TURNS
                chain, ends = array("Q", told.chain), array("I", told.ends)
                precise.learn(chain, ends, count, {BLOCK: chat.blocks[: count // BLOCK]}, 0)
        self.router.know(precise)

    def decided_ns(self, body: bytes) -> tuple[int, int]:
        """What naming took, and all else."""
        body = bytes(memoryview(body))  # as it comes from the network: the processor's caches have it
        began = perf_counter_ns()
        prompt = read(body)
        named = perf_counter_ns()
        choice = self.router.choose(prompt, self.fleet, 1.0)
        chosen = perf_counter_ns()
        self.router.refused(choice.engine, prompt)
        return named - began, chosen - named


def _engine(number: int, awaiting: int) -> EngineLoad:
    made = EngineLoad(number, number % 5 + awaiting, 1000 * number, awaiting)
    made.rates = Rates(64, 1e-4, 1e-9, 0.01, 0.02, 1e-4, 200.0, 4.0)
    made.kv_tokens, made.kv_usage = 500_000, 0.5
    return made


def _held(whole: int, number: int, engines: int, scene: Scene) -> int:
    """How much of it an engine holds; no two ends lie as far apart as two others, nor on a round number."""
    if not scene.has_ends:
        return whole
    return max(1, int(whole * ((number + 1) / engines) ** 1.3) - number % 2)


def times_us(
    world: World, chats: Sequence[Chat], times: int, between: Callable[[], object]
) -> tuple[list[float], list[float]]:
    """Of each decision: naming, all else."""
    found: tuple[list[float], list[float]] = ([], [])
    asked = [chats[n % len(chats)].asked() for n in range(times)]
    gc.collect()
    gc.freeze()
    for body in asked:
        between()
        for kind, took_ns in zip(found, world.decided_ns(body), strict=True):
            kind.append(took_ns / 1e3)
    gc.unfreeze()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.decision", description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=(8_000, 128_000))
    parser.add_argument("--engines", type=int, nargs="+", default=(2, 16))
    given = parser.parse_args()
    how = "compiled" if routers.__file__.endswith(".so") else "interpreted"
    print(f"{how} {sys.version.split()[0]}; µs in the median (p99)\n")
    print("| tokens | engines | what they hold | choice: warm | another | cold | name: warm | cold |")
    print("|--:|--:|---|--:|--:|--:|--:|--:|")
    other = bytearray(ELSE_BYTES)
    for tokens in given.tokens:
        rng = Random(1)
        chats = [Chat(rng, tokens) for _ in range(max(2, min(CHATS, MOST_TOKENS // tokens)))]
        for engines in given.engines:
            for scene in SCENES:
                world = World(scene, engines, chats)
                warm = times_us(world, chats[:1], WARM, lambda: None)
                another = times_us(world, chats, WARM, lambda: None)
                cold = times_us(world, chats, COLD, lambda: other.count(1))
                found = (warm[1], another[1], cold[1], warm[0], cold[0])
                cells = [f"{median(one):.0f} ({quantiles(one, n=100)[98]:.0f})" for one in found]
                print(f"| {tokens:,} | {engines} | {scene.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
