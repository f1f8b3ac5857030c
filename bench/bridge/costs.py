"""What the bridge costs: bytes for each text link and block, µs for a look-up and for a lesson.

`python -m bench.bridge.costs`.  Prompts are conversations of made-up text; their token ids are numbers out of
a generator, one for four bytes: neither engines nor a tokenizer are needed.
"""

import argparse
import time
import tracemalloc
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import msgspec

from bench import figures
from gateway.bridge.frames import Learned, pack, read, unpacker, words
from routing.bridge.learner import Bridge
from routing.events.chain import block_chain
from routing.types import Prompt

_LINK_BYTES, _TOKEN_BYTES = 1024, 4


def prompt(rng: Random, tokens: int, links: list[int], ids: list[int]) -> tuple[Prompt, list[int]]:
    """A prompt that goes on from `links` and `ids` up to so many tokens."""
    count = max(1, tokens * _TOKEN_BYTES // _LINK_BYTES)
    chain = [*links, *(rng.getrandbits(64) for _ in range(count - len(links)))]
    more = [*ids, *(rng.randrange(150_000) for _ in range(tokens - len(ids)))]
    ends = [_LINK_BYTES * (at + 1) for at in range(count)]
    return Prompt("m", chain, ends, 0, 0, stream=False, max_tokens=None), more


def memory(rng: Random, talks: int, turns: int, block: int) -> list[str]:
    """Conversations of `turns` turns, each 512 tokens longer than the one before."""
    tracemalloc.start()
    bridge, blocks = Bridge(block, 3), 0
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(talks):
        links: list[int] = []
        ids: list[int] = []
        for turn in range(1, turns + 1):
            made, ids = prompt(rng, 512 * turn, links, ids)
            links = list(made.chain)
            chain = array("Q", block_chain(ids, block))
            bridge.learn(array("Q", made.chain), array("I", made.ends), len(ids), chain)
        blocks += len(ids) // block
    took = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    links_count = len(bridge)
    tokens = talks * turns * 512
    return [
        f"{talks} talks of {turns} turns, blocks of {block}",
        f"{links_count}",
        f"{blocks}",
        f"{took / 1e6:.1f}",
        f"{took / links_count:.0f}",
        f"{(took - 8 * blocks) / links_count:.0f}",
        f"{took / tokens:.2f}",
    ]


def times(rng: Random, tokens: int, block: int, rounds: int) -> list[str]:
    """Looking up the next turn of a conversation of so many tokens in 16 turns, and learning it."""
    bridge = Bridge(block, 3)
    links: list[int] = []
    ids: list[int] = []
    for turn in range(1, 17):
        made, ids = prompt(rng, tokens * turn // 16, links, ids)
        links = list(made.chain)
        bridge.learn(links, made.ends, len(ids), array("Q", block_chain(ids, block)))
    took: dict[str, list[float]] = {name: [] for name in ("find", "told", "asked")}
    for _ in range(rounds):
        made, more = prompt(rng, tokens + 512, links, ids)
        answer = msgspec.json.encode({"count": len(more), "tokens": more})
        frame = packed(made, more, block)
        with timed(took["find"]):
            bridge.find(made.chain, made.ends)
        with timed(took["asked"]):
            own = msgspec.json.decode(answer, type=_Answer).tokens
            bridge.learn(made.chain, made.ends, len(own), array("Q", block_chain(own, block)))
        other, more = prompt(rng, tokens + 512, links, ids)
        frame = packed(other, more, block)
        with timed(took["told"]):
            unpacking = unpacker()
            unpacking.feed(frame)
            told = read(next(unpacking))
            assert isinstance(told, Learned)
            blocks = words(told.blocks[block], "Q")
            bridge.learn(words(told.chain, "Q"), words(told.ends, "I"), told.tokens, blocks)
    cells = [f"{1e6 * sorted(one)[len(one) // 2]:.0f}" for one in took.values()]
    return [f"{tokens} tokens, blocks of {block}", *cells]


class _Answer(msgspec.Struct):
    tokens: list[int]


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)


def packed(made: Prompt, ids: list[int], block: int) -> bytes:
    """What a worker is told of a prompt."""
    chain, ends = array("Q", made.chain).tobytes(), array("I", made.ends).tobytes()
    blocks = array("Q", block_chain(ids, block)).tobytes()
    return pack(Learned("f", chain, ends, len(ids), 0, {block: blocks}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bridge.costs", description=__doc__)
    parser.add_argument("--talks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    rng = Random(1)
    heads = ["memory", "links", "blocks", "MB", "bytes a link", "of it beside blocks", "bytes a token"]
    rows = [memory(rng, given.talks, turns, block) for turns in (4, 16) for block in (16, 32)]
    print(figures.table(heads, rows))
    heads = [
        "µs in the worker, median",
        "look-up",
        "learning, told",
        "learning, if it asked itself (without HTTP)",
    ]
    sizes = (512, 2048, 8192, 32768, 131072)
    print(figures.table(heads, [times(rng, tokens, 16, given.rounds) for tokens in sizes]))


if __name__ == "__main__":
    main()
