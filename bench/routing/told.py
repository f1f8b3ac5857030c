"""What engines are known to hold where their KV events come at once and every prompt's blocks are known.

As `routing.precise` has it, but for the text's way to the blocks. What can be loaded from the hosts' memory
is taken in one of three ways, to see what each is worth: by the credit that is learned for it, not at all, or
as if it were on the device.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bench.routing.asks import Ask
from bench.routing.engine import Answer, Engine
from routing.events.trust import Trust
from routing.lasting import Shares
from routing.policy import NOTHING_WAITS, Lasting
from routing.types import Prompt

CREDIT, DEVICE, FULL = "credit", "device", "full"
READINGS: Final = (CREDIT, DEVICE, FULL)


class Promise(NamedTuple):
    """Tokens of a prompt that are to be held at its turn, and more below.  `now`: those that are held, where
    others wait before it; else None."""

    tokens: int
    below: int
    now: int | None


class Told:
    """`routing.policy.Residency` over the engines' own books.  `ask` is to be set before it is asked."""

    def __init__(self, engines: Sequence[Engine], reading: str) -> None:
        if reading not in READINGS:
            raise ValueError(f"engines' events are read as {', '.join(READINGS)}, not as {reading!r}")
        self._engines = engines
        self._reading = reading
        self._below: dict[int, tuple[int, int]] = {}
        self._shares = Shares()
        self._promises: dict[int, Promise] = {}
        self.trust = Trust()
        self.ask: Ask | None = None

    def held(self, prompt: Prompt, lasting: Mapping[int, Lasting] = NOTHING_WAITS) -> Mapping[int, int]:
        ask = self.ask
        assert ask is not None and ask.prompt is prompt
        held: dict[int, int] = {}
        self._below, self._promises = {}, {}
        whole, tokens = prompt.ends[-1], ask.prompt_tokens
        for number, engine in enumerate(self._engines):
            size = engine.cache.block_size
            here, below = self._said(number, engine, ask.blocks[: tokens // size])
            if self._reading == FULL:
                here, below = here + below, 0
            elif self._reading == DEVICE:
                below = 0
            now = None
            if number in lasting:
                now, lasts = here * size, _lasts(ask, here, size, lasting[number])
                below, here = below + here - lasts if below else 0, lasts
            self._promises[number] = Promise(here * size, below * size, now)
            if number in self.trust.distrusted:
                continue
            held[number] = here * size * whole // tokens
            if below:
                self._below[number] = below * size * whole // tokens, 0
        return held

    def below(self) -> Mapping[int, tuple[int, int]]:
        return self._below

    def rename(self, prompt: Prompt) -> None:
        """Nothing is rewritten."""

    def share(self, engine: int) -> float:
        return self._shares.of(engine)

    def promised(self, engine: int) -> Promise:
        """Of the prompt that was last asked about."""
        return self._promises[engine]

    def answered(self, engine: int, promise: Promise, answer: Answer) -> None:
        """What became of a promise."""
        cached, size = answer.cached_tokens, self._engines[engine].cache.block_size
        tokens = min(max(promise.tokens, cached), promise.tokens + promise.below)
        if promise.now is not None:
            self._shares.told(engine, tokens, promise.now, cached, size)
        self.trust.told(engine, tokens, cached, size)

    def _said(self, number: int, engine: Engine, chain: Sequence[int]) -> tuple[int, int]:
        """Leading blocks that the engine says it holds, and can load behind them."""
        return engine.cache.reach(chain)


def _lasts(ask: Ask, count: int, size: int, lasting: Lasting) -> int:
    """As in `routing.precise`."""
    whole = ask.prompt.ends[-1]
    lasts = count
    if lasting.memory_bytes < whole:
        tokens = 2 * lasting.waiting_bytes * ask.prompt_tokens // whole
        lasts = min(count, max(_leading(ask, lasting.memory_bytes, size), count - tokens // size - 1))
    return max(lasts, _leading(ask, min(lasting.coming_bytes, lasting.memory_bytes), size))


def _leading(ask: Ask, text_bytes: int, size: int) -> int:
    ends = ask.prompt.ends
    links = bisect_right(ends, text_bytes)
    return ends[links - 1] * ask.prompt_tokens // ends[-1] // size if links else 0
