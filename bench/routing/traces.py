"""The six traces.  Four are drawn from a seed; two are Mooncake's, read from the file that is named.

Instants are at speed 1: one opening request a second in the mean.  Requests of a talk follow
one another: each is sent a while after the answer before it has ended, as users and agents do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from random import Random

import msgspec

from bench.routing.asks import Ask, Talk, Trace
from workload.prompts import Lognormal
from workload.traces import MOONCAKE_BLOCK_TOKENS, MOONCAKE_BUCKET_S

CHAT_BYTES, CODE_BYTES = 4.3, 3.4  # a token
DRAWN = ("hot-prefix", "multi-turn", "agents", "all-unique")
MOONCAKE = {"conversation": "mooncake-conversation", "synthetic": "mooncake-synthetic"}


def drawn(name: str, seed: int, block_size: int) -> Trace:
    """One of `DRAWN`, without end."""
    rng = Random(f"{name} {seed}")
    kind = _KINDS[name]
    return Trace(name, _instants(rng, kind.asks(rng, block_size)), kind.talk_s, kind.turns)


def mooncake(name: str, path: Path, seed: int, asks: int, block_size: int, most_tokens: int) -> Trace:
    """`asks` rows of the file, from where the seed says, without those of more than `most_tokens`.

    Their instants are spread over their buckets of 3 s.
    """
    rng = Random(f"{name} {seed}")
    with path.open("rb") as lines:
        rows = [msgspec.json.decode(line, type=_Row) for line in lines if line.strip()]
    first = rng.randrange(max(1, len(rows) - asks + 1))
    rows = rows[first : first + asks]
    return Trace(name, _replayed(rng, rows, block_size, most_tokens))


def _replayed(rng: Random, rows: "Sequence[_Row]", block_size: int, most_tokens: int) -> Iterator[Ask]:
    answers = count(1 << 40)
    seconds = (rows[-1].timestamp - rows[0].timestamp) / 1e3 + MOONCAKE_BUCKET_S
    scale = len(rows) / seconds  # to one a second
    for at_ms, bucket in groupby(rows, key=lambda row: row.timestamp):
        members = list(bucket)
        instants = sorted(rng.random() * MOONCAKE_BUCKET_S for _ in members)
        for row, within_s in zip(members, instants, strict=True):
            if row.input_length + row.output_length > most_tokens:
                continue
            talk = Talk(block_size, CHAT_BYTES)
            left = row.input_length
            for key in row.hash_ids:
                talk.say((key, min(left, MOONCAKE_BLOCK_TOKENS)))
                left -= MOONCAKE_BLOCK_TOKENS
            root = talk.chain[min(len(talk.chain) - 1, 3)]
            ask = talk.asked((next(answers), max(1, row.output_length)), root, 0)
            ask.at_s = ((at_ms - rows[0].timestamp) / 1e3 + within_s) * scale
            yield ask


class _Row(msgspec.Struct):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


def _hot_prefix(rng: Random, block_size: int) -> Iterator[Ask]:
    """70 % of all share 8,000 tokens; the rest share one of 40 beginnings of 4,000, the first most often."""
    keys = count(1000)
    begun = [_begun(block_size, CHAT_BYTES, (n, 8000 if n == 0 else 4000)) for n in range(41)]
    weights = [1.0 / (n + 1) for n in range(40)]
    questions, answers = Lognormal(120, 0.7, 10, 1500), Lognormal(150, 0.7, 10, 1000)
    while True:
        hot = rng.random() < 0.7
        talk = begun[0 if hot else 1 + rng.choices(range(40), weights)[0]].copy()
        key = next(keys)
        talk.say((key, round(questions.draw(rng))))
        yield talk.asked((next(keys), round(answers.draw(rng))), key, 0)


def _multi_turn(rng: Random, block_size: int) -> Iterator[Ask]:
    """Chats over four system prompts: 6 turns in the mean, users who think for 8 s in the median."""
    keys = count(1000)
    begun = [_begun(block_size, CHAT_BYTES, (n, 600 + 200 * n)) for n in range(4)]
    first, later = Lognormal(500, 1.0, 20, 8000), Lognormal(80, 0.9, 5, 2000)
    answers, thinks = Lognormal(220, 0.7, 10, 1500), Lognormal(8.0, 0.7, 1.0, 60.0)
    while True:
        talk = begun[rng.choices(range(4), (8, 4, 2, 1))[0]].copy()
        root = next(keys)
        talk.say((next(keys), round(first.draw(rng))))
        opening = before = talk.asked((next(keys), round(answers.draw(rng))), root, 0)
        for turn in range(1, _geometric(rng, 6.0, 20)):
            talk.say((next(keys), round(later.draw(rng))))
            ask = talk.asked((next(keys), round(answers.draw(rng))), root, turn, before)
            before.follow.append((thinks.draw(rng), ask))
            before = ask
        yield opening


def _agents(rng: Random, block_size: int) -> Iterator[Ask]:
    """Three kinds of agent, 6,000 tokens of tools each; a third of the tasks calls four siblings at once."""
    keys = count(1000)
    begun = [_begun(block_size, CODE_BYTES, (n, 6000)) for n in range(3)]
    tasks, results = Lognormal(1500, 0.6, 200, 8000), Lognormal(500, 1.1, 20, 8000)
    calls, tools_s = Lognormal(80, 0.7, 10, 800), Lognormal(1.0, 0.9, 0.1, 20.0)
    while True:
        talk = begun[rng.choices(range(3), (4, 2, 1))[0]].copy()
        talk.say((next(keys), round(tasks.draw(rng))))
        first = talk.asked((next(keys), round(calls.draw(rng))), next(keys), 0)
        for _ in range(4 if rng.random() < 1 / 3 else 1):
            branch, before = talk.copy(), first
            for step in range(1, 1 + _geometric(rng, 8.0, 30)):
                branch.say((next(keys), round(results.draw(rng))))
                ask = branch.asked((next(keys), round(calls.draw(rng))), first.prompt.root, step, before)
                before.follow.append((tools_s.draw(rng), ask))
                before = ask
        yield first


def _all_unique(rng: Random, block_size: int) -> Iterator[Ask]:
    """Nothing is shared: 1,500 tokens in the median."""
    keys = count(1000)
    prompts, answers = Lognormal(1500, 0.9, 20, 16_000), Lognormal(150, 0.8, 5, 1500)
    while True:
        talk, key = Talk(block_size, CHAT_BYTES), next(keys)
        talk.say((key, round(prompts.draw(rng))))
        yield talk.asked((next(keys), round(answers.draw(rng))), key, 0)


def _begun(block_size: int, bytes_per_token: float, *pieces: tuple[int, int]) -> Talk:
    talk = Talk(block_size, bytes_per_token)
    for piece in pieces:
        talk.say(piece)
    return talk


def _geometric(rng: Random, mean: float, most: int) -> int:
    number = 1
    while number < most and rng.random() > 1.0 / mean:
        number += 1
    return number


def _instants(rng: Random, opening: Iterator[Ask]) -> Iterator[Ask]:
    at_s = 0.0
    for ask in opening:
        at_s += rng.expovariate(1.0)
        ask.at_s = at_s
        yield ask


@dataclass(frozen=True, slots=True)
class _Kind:
    asks: Callable[[Random, int], Iterator[Ask]]
    talk_s: float = 0.0
    turns: float = 1.0


_KINDS = {
    "hot-prefix": _Kind(_hot_prefix),
    "multi-turn": _Kind(_multi_turn, talk_s=100.0, turns=5.8),
    "agents": _Kind(_agents, talk_s=35.0, turns=16.7),
    "all-unique": _Kind(_all_unique),
}
