"""What does a worker count, from its start on?

Most of it is rare and stands in a plain dict.  What grows with every request is a `Count`, kept by whoever
adds to it: to make a key for a dict and look it up costs many times what adding does.
"""

from collections import defaultdict

from gateway.outcome import Outcome
from gateway.usage import Usage

Key = tuple[str, ...]


class Count:
    """One number.  It is told from the first `add` on, also of 0: before, nothing is known."""

    __slots__ = ("is_told", "n")

    def __init__(self) -> None:
        self.n = 0
        self.is_told = False

    def add(self, number: int) -> None:
        self.n += number
        self.is_told = True


class Tallies:
    """What happened since the worker started; exported once a second."""

    __slots__ = ("_often", "counts", "requests", "retried")

    def __init__(self) -> None:
        self.counts: dict[Key, int] = defaultdict(int)
        self._often: dict[Key, Count] = {}
        self.requests = 0
        self.retried = 0

    def often(self, *key: str) -> Count:
        """The number under that key, which is not to be in `counts`, too."""
        count = self._often.get(key)
        if count is None:
            count = self._often[key] = Count()
        return count

    def all(self) -> dict[Key, int]:
        """All numbers as they are now."""
        told = dict(self.counts)
        for key, count in self._often.items():
            if count.is_told:
                told[key] = told.get(key, 0) + count.n
        return told


class Answered:
    """What is counted of every good answer of a fleet."""

    __slots__ = ("_cached_tokens", "_complete", "_completion_tokens", "_fleet", "_prompt_tokens", "_tallies")

    def __init__(self, tallies: Tallies, fleet: str) -> None:
        self._tallies = tallies
        self._fleet = fleet
        self._complete: dict[str, Count] = {}  # by engine
        self._prompt_tokens = tallies.often("prompt_tokens", fleet)
        self._cached_tokens = tallies.often("cached_tokens", fleet)
        self._completion_tokens = tallies.often("completion_tokens", fleet)

    def completed(self, engine: str) -> None:
        """A request whose answer is whole and good."""
        count = self._complete.get(engine)
        if count is None:
            count = self._tallies.often("requests", self._fleet, engine, Outcome.COMPLETE)
            self._complete[engine] = count
        count.add(1)

    def told(self, usage: Usage) -> None:
        """What an answer says of its tokens."""
        if usage.prompt_tokens is not None:
            self._prompt_tokens.add(usage.prompt_tokens)
        if usage.cached_tokens is not None:
            self._cached_tokens.add(usage.cached_tokens)
        if usage.completion_tokens is not None:
            self._completion_tokens.add(usage.completion_tokens)
