"""What a trace is made of: requests whose prompts are pieces, named once for the router and once for engines.

A piece is a message or a document: a key and a length in tokens.  Equal keys are equal text.  The router sees
a prompt as the chain that `routing.chain` cuts from its text, at piece ends and every KB between; an engine
sees blocks of tokens.  No text is made: only what the hashes tell apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct

from xxhash import xxh3_64_intdigest

from routing.chain import CUT_BYTES
from routing.types import Prompt

Piece = tuple[int, int]
"""Key and tokens."""

_PART = Struct("<QII").pack
_ROOT = 1337


@dataclass(slots=True)
class Ask:
    """One request.  `follow` is sent `after_s` seconds after this one's end: its prompt holds the answer."""

    prompt: Prompt
    prompt_tokens: int
    output_tokens: int
    blocks: Sequence[int]  # of the prompt and the answer, whole blocks only
    said: Sequence[Piece]  # since the answer before
    answer: int  # its key
    before: "Ask | None" = None  # whose answer this one follows
    at_s: float = 0.0  # instant at speed 1, for those that follow nothing
    follow: "list[tuple[float, Ask]]" = field(default_factory=list)


class Trace:
    """Talks, each by the ask that opens it, in the order of `at_s`.

    `talk_s` is about how long a talk goes on, and `turns` how many asks it has in the mean: a run begins with
    as many talks under way as there would be.
    """

    def __init__(self, name: str, opening: Iterator[Ask], talk_s: float = 0.0, turns: float = 1.0) -> None:
        self.name = name
        self.talk_s = talk_s
        self.turns = turns
        self._more = opening
        self._made: list[Ask] = []

    def opening(self, number: int) -> Sequence[Ask]:
        """The first `number` asks that open a talk; fewer where the trace ends before."""
        made = self._made
        if len(made) < number:
            made.extend(islice(self._more, number - len(made)))
        return made[:number]


class Talk:
    """A prompt that grows: the chains of every beginning of it."""

    __slots__ = ("_bytes", "_bytes_per_token", "_link", "_name", "_parts", "_room", "_said", "_size",
                 "blocks", "chain", "ends", "tokens")  # fmt: skip

    def __init__(self, block_size: int, bytes_per_token: float) -> None:
        self._size = block_size
        self._bytes_per_token = bytes_per_token
        self.tokens = 0
        self.blocks: list[int] = []
        self._name, self._parts, self._room = _ROOT, b"", block_size
        self.chain: list[int] = []
        self.ends: list[int] = []
        self._link, self._bytes = _ROOT, 0
        self._said: list[Piece] = []

    def copy(self) -> "Talk":
        """Another with the same beginning."""
        twin = Talk(self._size, self._bytes_per_token)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(twin, name, list(value) if isinstance(value, list) else value)
        return twin

    def say(self, piece: Piece) -> None:
        """The next piece."""
        key, tokens = piece
        self._said.append(piece)
        self.tokens += tokens
        at, room, name, parts, size = 0, self._room, self._name, self._parts, self._size
        append = self.blocks.append
        while at < tokens:
            take = room if room < tokens - at else tokens - at
            parts += _PART(key, at, take)
            at += take
            room -= take
            if not room:
                name = xxh3_64_intdigest(parts, name)
                append(name)
                parts, room = b"", size
        self._room, self._name, self._parts = room, name, parts
        length = max(1, round(tokens * self._bytes_per_token))
        link = self._link
        for start in range(0, length, CUT_BYTES):
            end = min(length, start + CUT_BYTES)
            link = xxh3_64_intdigest(_PART(key, start, end - start), link)
            self.chain.append(link)
            self.ends.append(self._bytes + end)
        self._link = link
        self._bytes += length

    def asked(self, answer: Piece, root: int, turns: int, before: Ask | None = None) -> Ask:
        """What was said so far, as a request; `answer` is said after it."""
        said, self._said = tuple(self._said), []
        prompt = Prompt("m", tuple(self.chain), tuple(self.ends), root, turns, True, None)
        prompt_tokens = self.tokens
        self.say(answer)
        self._said.clear()
        return Ask(prompt, prompt_tokens, answer[1], tuple(self.blocks), said, answer[0], before)
