"""How many bytes of text is a token?  Learned for each model from prompts that engines counted, then fixed.

Blocks are cut by it, so it must not change once it is known; and it must not be learned from a greeting, most
of whose tokens are the template's, nor from an image, which is many tokens and no text.
"""

from collections.abc import Iterable, MutableMapping
from statistics import median
from typing import Final

GUESS: Final = 4.0  # of a model of which nothing is known
LONG: Final = 500  # bytes of a prompt that tells anything
_LOW: Final = 2.0  # cut by less than there is, a prompt's end is in no block; by more, nothing continues it
_ENOUGH: Final = 16  # prompts
_ENOUGH_BYTES: Final = 20_000  # of however few
_MOST_MODELS: Final = 1_000  # of more nothing is learned: clients write their names
_BOUNDS: Final = 1.0, 16.0


class Sizes:
    """Bytes a token, by model.  `settled` are fixed: known from before, or found here."""

    def __init__(self, settled: MutableMapping[str, float]) -> None:
        self.settled = settled
        self._seen: dict[str, list[tuple[int, int]]] = {}  # bytes and tokens of prompts

    def of(self, model: str) -> float:
        """What is fixed, else the guess."""
        return self.settled.get(model, GUESS)

    def cut(self, model: str, *, counted: bool) -> float:
        """By how many bytes a token a prompt is cut, `counted` by its engine or not."""
        return self.settled.get(model, _LOW if counted else GUESS)

    def learn(self, model: str, size: int, tokens: int | None) -> bool:
        """Take a prompt of so many bytes that an engine counted; whether its model is settled."""
        if model in self.settled:
            return True
        if size >= LONG and tokens and (model in self._seen or self._has_room):
            seen = self._seen.setdefault(model, [])
            seen.append((size, tokens))
            if len(seen) >= _ENOUGH or sum(size for size, _ in seen) >= _ENOUGH_BYTES:
                self.settle([model])
        return model in self.settled

    @property
    def _has_room(self) -> bool:
        return len(self._seen) + len(self.settled) < _MOST_MODELS

    def settle(self, models: Iterable[str]) -> None:
        """Fix what is known of these, however little: there is something to be cut."""
        least, most = _BOUNDS
        for model in models:
            if (seen := self._seen.pop(model, None)) is not None:
                middle = median(size / tokens for size, tokens in seen)
                self.settled[model] = round(min(most, max(least, middle)), 3)
