"""What do users and their applications say?  Conversations made of own sentences from a random generator.

A conversation opens with one of a few long system prompts, as applications do, and then takes several
turns.  The lengths of messages and answers and the pauses between turns are lognormal: most short, some very
long.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from workload import phrases


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing a user says: its text, the most tokens its answer may have, and the pause before it."""

    user: str
    max_tokens: int
    think_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Conversation:
    """A system prompt ("" for none), the turns a user takes, and the temperature of the answers, which
    come from whoever is asked."""

    system: str
    turns: tuple[Turn, ...]
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A long-tailed length: `median`, `sigma` (sd of the logarithm), and bounds at which draws are cut."""

    median: float
    sigma: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (0 < self.low <= self.median <= self.high and self.sigma >= 0):
            raise ValueError(f"a length needs 0 < low <= median <= high and sigma >= 0: {self}")

    def draw(self, rng: Random) -> float:
        """One length, in the unit of `median`."""
        return min(self.high, max(self.low, rng.lognormvariate(math.log(self.median), self.sigma)))


@dataclass(frozen=True, slots=True)
class Shape:
    """How long everything is.  The number of turns is geometric of mean `turns`, at most `most_turns`."""

    systems: int = 4
    system_bytes: tuple[int, int] = (1_000, 3_000)
    turns: float = 3.0
    most_turns: int = 8
    user_words: Lognormal = Lognormal(24, 0.9, 4, 400)
    max_tokens: Lognormal = Lognormal(120, 0.8, 8, 1_500)
    think_s: Lognormal = Lognormal(4.0, 0.8, 0.5, 60.0)
    sampled: float = 0.0  # this share of conversations is answered at temperature 1, the others at 0


def system_prompts(rng: Random, shape: Shape) -> tuple[str, ...]:
    """The `shape.systems` prompts that conversations share, of `shape.system_bytes` or a little more."""
    roles = rng.sample(phrases.ROLES, k=min(shape.systems, len(phrases.ROLES)))
    while len(roles) < shape.systems:
        roles.append(rng.choice(phrases.ROLES))
    return tuple(_system_prompt(rng, role, rng.randint(*shape.system_bytes)) for role in roles)


def conversations(rng: Random, shape: Shape, systems: Sequence[str]) -> Iterator[Conversation]:
    """Endless conversations over `systems`, the first the most popular (Zipf weights 1, 1/2, 1/3, …)."""
    weights = [1.0 / (place + 1) for place in range(len(systems))]
    while True:
        system = rng.choices(systems, weights)[0] if systems else ""
        turns = tuple(_turn(rng, shape, first=not place) for place in range(_turn_count(rng, shape)))
        yield Conversation(system, turns, temperature=float(rng.random() < shape.sampled))


def _turn_count(rng: Random, shape: Shape) -> int:
    count = 1
    while count < shape.most_turns and rng.random() > 1.0 / shape.turns:
        count += 1
    return count


def _turn(rng: Random, shape: Shape, *, first: bool) -> Turn:
    words = round(shape.user_words.draw(rng))
    think_s = 0.0 if first else shape.think_s.draw(rng)
    return Turn(_user_message(rng, words, first=first), round(shape.max_tokens.draw(rng)), think_s)


def _user_message(rng: Random, words: int, *, first: bool) -> str:
    # A ticket number opens the conversation, as in real applications; it also keeps two openings from
    # being equal.
    said = [f"Ticket {rng.randrange(10**9):09d}."] if first else []
    said.append(_fill(rng, rng.choice(phrases.OPENERS if first else phrases.FOLLOW_UPS)))
    length = sum(part.count(" ") + 1 for part in said)
    while length < words:
        sentence = _fill(rng, rng.choice(phrases.DETAILS))
        said.append(sentence)
        length += sentence.count(" ") + 1
    return " ".join(said)


def _system_prompt(rng: Random, role: str, size: int) -> str:
    lines = [
        f"You are {role} at {rng.choice(phrases.COMPANIES)}.",
        _fill(rng, rng.choice(phrases.TONES)),
        "",
        "Rules:",
    ]
    length = sum(len(line) + 1 for line in lines)
    number = 0
    while length < size:
        number += 1
        line = f"{number}. {_fill(rng, rng.choice(phrases.RULES))}"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def _fill(rng: Random, sentence: str) -> str:
    """`sentence` with each slot such as <thing> replaced by a word for it."""
    for slot, words in phrases.SLOTS:
        while slot in sentence:
            sentence = sentence.replace(slot, rng.choice(words), 1)
    return sentence
