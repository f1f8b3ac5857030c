"""What follows upon the control's answer in a phase of its own: requests made of the tokens it said."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mirror.admit import PhaseName
from mirror.arms import Arm, Prepared
from mirror.frames import Copy
from mirror.pair import UNFIT_PAIRS

NO_TOKEN_IDS = "no_token_ids"
_ENOUGH_UNFIT = 50  # of the control's answers, in a row
_ENOUGH_UNTOLD = 10  # pairs in a row

Done = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Following:
    """The requests to all arms, the tokens they are about, and what the pair's head says beside."""

    prepared: list[Prepared]
    tokens: list[int]
    told: dict[str, Any] = field(default_factory=dict)


class Sequel(ABC):
    """What one phase sends after each of the control's answers, if all arms have shown that they can.

    `why` is None while they are asked and when all can; else why nothing follows.  `source` marks the pairs
    whose answers are followed: the arms have more requests than those show.  `left` counts the control's
    answers upon which nothing followed, by why.
    """

    phase: ClassVar[PhaseName]
    path: ClassVar[str]
    source: ClassVar[str]
    stream: ClassVar[bool]

    def __init__(self, arms: Sequence[Arm]) -> None:
        self.arms = arms
        self.ready = False
        self.why: str | None = None
        self.under_way = 0  # requests not yet answered
        self.left: Counter[str] = Counter()
        self._none = 0  # unfit answers in a row
        self._untold = 0  # pairs in a row that were dropped for what they are

    @abstractmethod
    async def ask(self) -> None:
        """Find out who can."""

    @abstractmethod
    def after(self, copy: Copy, answer: dict[str, Any], duplicate: int) -> Following | None:
        """What follows upon this answer of the control; None where nothing does."""

    def unfit(self, why: str) -> None:
        """Nothing can follow upon this answer, for what it is; after enough of them in a row: upon none."""
        self.left[why] += 1
        self._none += 1
        if self._none >= _ENOUGH_UNFIT:
            self.why = self.why or f"no answer of the control can be {self.phase} ({why})"

    def ended(self, reason: str | None) -> None:
        """What followed upon an answer is a pair, which was told (None) or dropped for a reason.

        After enough in a row of those that cannot be told, nothing follows any more.
        """
        if reason is None:
            self._untold = 0
        elif reason in UNFIT_PAIRS:
            self._untold += 1
            if self._untold >= _ENOUGH_UNTOLD:
                self.why = self.why or f"what is {self.phase} cannot be told to the analysis ({reason})"

    def looked_at(self, following: Following, answer: dict[str, Any]) -> dict[str, Any]:
        """An arm's answer, with what is to be noted of it."""
        return answer

    def head(self, copy: Copy, at_ns: int, epoch: int, mark: str | None, duplicate: int) -> dict[str, Any]:
        """The fields with which the pair begins of what follows upon a copy's answer, sent at `at_ns`."""
        return {
            "phase": self.phase,
            "epoch": epoch,
            "mark": mark,
            "duplicate": duplicate,
            "at_ns": at_ns,
            "received_ns": at_ns,
            "path": self.path,
            "stream": self.stream,
            "root": copy.root,
            "turn": copy.turn,
        }

    def heard(self, following: Following, done: Callable[[dict[str, Any]], object]) -> Done:
        """`done`, told of each answer once it was looked at; until then the requests are under way."""
        self.under_way += len(following.prepared)
        self._none = 0

        def hear(answer: dict[str, Any]) -> None:
            self.under_way -= 1
            done(self.looked_at(following, answer))

        return hear
