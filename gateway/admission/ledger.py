"""What is counted of admission in one worker, by the names and labels of `gateway.metrics`."""

from collections import defaultdict
from collections.abc import MutableMapping

from gateway.admission.keys import Used
from gateway.admission.refusal import Refused
from gateway.durations import E2E_S, Durations

CLASS_NAMES = ("high", "normal", "low")
DEGRADED = ("fallback", "max_tokens", "refused")


class Ledger:
    """Refusals, degradations, waits, and what each key used."""

    __slots__ = ("_counts", "_waits", "used")

    def __init__(self, counts: MutableMapping[tuple[str, ...], int]) -> None:
        self._counts = counts
        self._waits: dict[tuple[str, ...], Durations] = {}
        self.used: dict[str, Used] = defaultdict(Used)  # by name: a key keeps it when its limits change

    def limited(self, refused: Refused, key: str, priority: int) -> Refused:
        """Count a refusal, and give it."""
        self._add(("limited", key, CLASS_NAMES[priority], refused.reason))
        return refused

    def degraded(self, fleet: str, how: str) -> None:
        """Count what became of a request for which there was no room."""
        self._add(("degraded", fleet, how))

    def waited(self, fleet: str, priority: int, ns: int) -> None:
        """A turn came after so long."""
        series = ("queue_wait", fleet, CLASS_NAMES[priority])
        if series not in self._waits:
            self._waits[series] = Durations(E2E_S)
        self._waits[series].add(ns / 1e9)

    def usage(self) -> dict[tuple[str, ...], int]:
        """What each key came to since this worker started, by series."""
        return {
            (f"key_{what}", name): getattr(used, what)
            for name, used in self.used.items()
            for what in Used.__slots__
        }

    def waits(self) -> dict[tuple[str, ...], Durations]:
        """How long requests waited for their turns, by series, each told once."""
        waits, self._waits = self._waits, {}
        return waits

    def _add(self, series: tuple[str, ...]) -> None:
        self._counts[series] = self._counts.get(series, 0) + 1
