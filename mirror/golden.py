"""When is a golden request put among the copies, and what does it ask?"""

import hashlib
from collections import Counter
from collections.abc import Callable

import msgspec

from mirror.frames import Copy
from mirror.spec import GoldenItem, MirrorExperiment

GOLDEN = "golden"
PATH = "/v1/chat/completions"
_HEADERS = [(b"content-type", b"application/json")]


class Golden:
    """Counts copies, and gives the next golden request after every so many, each once.

    Where arms take turns each candidate has all of them in its turns, beside the control.  One at temperature
    0 that came twice would be answered alike twice, and count double.
    """

    def __init__(self, experiment: MirrorExperiment, now_ns: Callable[[], int]) -> None:
        spec = experiment.golden
        self._every = 0 if spec is None else spec.every
        self._most = 0 if spec is None else spec.max_tokens
        self._items = () if spec is None else spec.items
        self._experiment = experiment
        self._now_ns = now_ns
        self._copies: Counter[str] = Counter()  # by whose turn it is
        self._next: Counter[str] = Counter()

    def due(self, phase: str, turn: str = "") -> Copy | None:
        """A copy was taken in this phase: the golden request that follows it, if one does.

        `turn` is the candidate that has its turn, empty where all arms stand side by side.
        """
        if phase != "live" or self._next[turn] >= len(self._items):
            return None
        self._copies[turn] += 1
        if self._copies[turn] % self._every:
            return None
        item = self._items[self._next[turn]]
        self._next[turn] += 1
        return self._copy(item, turn)

    def _copy(self, item: GoldenItem, turn: str) -> Copy:
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
            id=f"golden {item.id} {turn}".rstrip(),
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
