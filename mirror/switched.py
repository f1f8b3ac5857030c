"""What a process is told of pauses: the supervisor's word, kept for whoever must obey it."""

import json
from collections.abc import Callable
from collections.abc import Set as AbstractSet


def told(number: int, paused: AbstractSet[str]) -> bytes:
    """The body of a `switch` message: which experiments are paused, and the number of this word."""
    return json.dumps({"number": number, "paused": sorted(paused)}).encode()


class Switched:
    """The last word, and the one who obeys it.  `say(number)` tells the supervisor that it is obeyed."""

    def __init__(self, say: Callable[[int], object] = lambda _number: None) -> None:
        self._say = say
        self._obey: Callable[[AbstractSet[str]], None] | None = None
        self.paused: AbstractSet[str] = frozenset()

    def obeyed_by(self, obey: Callable[[AbstractSet[str]], None]) -> None:
        """Have `obey(paused)` called now, and at every change."""
        self._obey = obey
        obey(self.paused)

    def told(self, body: bytes) -> None:
        """The supervisor said it: it holds when this returns."""
        said = json.loads(body)
        self.paused = frozenset(said["paused"])
        if self._obey is not None:
            self._obey(self.paused)
        self._say(int(said["number"]))
