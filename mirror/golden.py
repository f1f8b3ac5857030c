"""When is a golden request put among the copies, and what does it ask?"""

import hashlib
from collections.abc import Callable

import msgspec

from mirror.frames import Copy
from mirror.spec import GoldenItem, MirrorExperiment

GOLDEN = "golden"
PATH = "/v1/chat/completions"
_HEADERS = [(b"content-type", b"application/json")]


class Golden:
    """Counts copies, and gives the next golden request after every so many, each once.

    One at temperature 0 that came twice would be answered alike twice, and count double.
    """

    def __init__(self, experiment: MirrorExperiment, now_ns: Callable[[], int]) -> None:
        spec = experiment.golden
        self._every = 0 if spec is None else spec.every
        self._most = 0 if spec is None else spec.max_tokens
        self._items = () if spec is None else spec.items
        self._experiment = experiment
        self._now_ns = now_ns
        self._copies = 0
        self._next = 0

    def due(self, phase: str) -> Copy | None:
        """A copy was taken in this phase: the golden request that follows it, if one does."""
        if phase != "live" or self._next >= len(self._items):
            return None
        self._copies += 1
        if self._copies % self._every:
            return None
        item = self._items[self._next]
        self._next += 1
        return self._copy(item)

    def _copy(self, item: GoldenItem) -> Copy:
        fields = {
            "max_tokens": self._most,
            **msgspec.json.decode(item.body),
            "temperature": 0,
            "stream": True,
        }
        if (models := self._experiment.models) != ():
            fields["model"] = models[0]
        at_ns = self._now_ns()
        name = hashlib.blake2b(item.id.encode(), digest_size=8).digest()
        return Copy(
            experiment=self._experiment.name,
            id=f"golden {item.id}",
            path=PATH,
            headers=_HEADERS,
            body=msgspec.json.encode(fields),
            received_ns=at_ns,
            sent_ns=at_ns,
            root=int.from_bytes(name) >> 1,
            turn=0,
            stream=True,
            golden={"id": item.id, "check": item.check},
        )
