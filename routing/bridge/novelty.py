"""Which prompts are worth learning: those with much that was not learned, within a budget of bytes.

Not by dice: in a conversation each turn is new, and a fifth of all prompts at random leaves most unknown.
"""

from typing import Final

NOVEL_BYTES: Final = 512
"""So much that was not learned makes a prompt worth it. With more than half of the budget left, less is; with
less than a quarter, at least half of the prompt must be new."""
LEAST_NOVEL_BYTES: Final = 64
LONG_BYTES: Final = 128 << 10
"""About 32k tokens: an engine would be kept busy for long."""
_BURST_S: Final = 4.0


class Budget:
    """A bucket of bytes. What it may take is refilled at `bytes_per_s`."""

    def __init__(self, bytes_per_s: float, now_s: float) -> None:
        self._rate = bytes_per_s
        self._most = max(bytes_per_s * _BURST_S, LONG_BYTES)
        self._left = self._most
        self._at_s = now_s

    def refusal(self, unlearned_bytes: int, prompt_bytes: int, now_s: float) -> str | None:
        """Take a prompt's bytes out of the budget, or say why it is not to be learned now."""
        if unlearned_bytes < LEAST_NOVEL_BYTES:
            return "known"
        if prompt_bytes > LONG_BYTES:
            return "long"
        self._left = min(self._most, self._left + max(0.0, now_s - self._at_s) * self._rate)
        self._at_s = now_s
        if unlearned_bytes <= NOVEL_BYTES and self._left < self._most / 2:
            return "little"
        if 2 * unlearned_bytes < prompt_bytes and self._left < self._most / 4:
            return "little"  # what began is told apart already; what begins is not
        if prompt_bytes > self._left:
            return "budget"
        self._left -= prompt_bytes
        return None
