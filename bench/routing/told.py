"""What engines are known to hold where their KV events come at once and every prompt's blocks are known.

What can be loaded from the hosts' memory is taken in one of three ways, to see what each is worth: by the
credit that is learned for it, not at all, or as if it were on the device.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bench.routing.asks import Ask
from bench.routing.engine import Engine
from routing.types import Prompt

CREDIT, DEVICE, FULL = "credit", "device", "full"
READINGS: Final = (CREDIT, DEVICE, FULL)
_NOBODY: Final[Mapping[int, object]] = {}


class Told:
    """`routing.policy.Residency` over the engines' own books.  `ask` is to be set before it is asked."""

    def __init__(self, engines: Sequence[Engine], reading: str) -> None:
        if reading not in READINGS:
            raise ValueError(f"engines' events are read as {', '.join(READINGS)}, not as {reading!r}")
        self._engines = engines
        self._reading = reading
        self._below: dict[int, tuple[int, int]] = {}
        self.ask: Ask | None = None

    def held(self, prompt: Prompt, lasting: Mapping[int, object] = _NOBODY) -> Mapping[int, int]:
        ask = self.ask
        assert ask is not None and ask.prompt is prompt
        held: dict[int, int] = {}
        self._below = {}
        for number, engine in enumerate(self._engines):
            here, below = engine.cache.reach(ask.blocks[: ask.prompt_tokens // engine.cache.block_size])
            if self._reading == FULL:
                here, below = here + below, 0
            size = engine.cache.block_size
            whole = prompt.ends[-1]
            held[number] = here * size * whole // ask.prompt_tokens
            if below and self._reading == CREDIT:
                self._below[number] = below * size * whole // ask.prompt_tokens, 0
        return held

    def below(self) -> Mapping[int, tuple[int, int]]:
        return self._below

    def share(self, engine: int) -> float:
        return 1.0
