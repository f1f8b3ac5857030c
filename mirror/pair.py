"""Which answers belong together, and the books: every copy ends paired or dropped for a reason."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mirror.admit import OVERLOAD
from mirror.room import Holder, Room

UNANSWERED = "unanswered"  # how an answer ended that never did
UNSENT = "unsent"
STOPPED = "stopped"
DUPLICATE = "duplicate"
WARM_UP, DRAIN = "warm_up", "drain"  # why a pair is kept and not judged
PAIR_TOO_LARGE = "pair_too_large"
UNPACKABLE = "unpackable"
UNFIT_PAIRS = frozenset({PAIR_TOO_LARGE, UNPACKABLE})  # dropped for what they are: another try ends likewise

Key = tuple[str, int]  # an arm and which of its answers: its twin

READ_BYTES = 136  # what keeping one read costs beside its bytes: a tuple, an instant, a head, a place


def answer_bytes(answer: Mapping[str, Any]) -> int:
    """The memory an answer's reads take, in bytes, their bookkeeping included."""
    return sum(len(body) + READ_BYTES for _, body in answer["reads"])


def no_answer(key: Key, order: int, sent_ns: int, end_ns: int, ending: str) -> dict[str, Any]:
    """What stands for the answer of an arm that gave none until `end_ns`: it has failed, as `ending` says."""
    arm, twin = key
    return {
        "arm": arm,
        "twin": twin,
        "order": order,
        "sent_ns": sent_ns,
        "head_ns": None,
        "status": None,
        "content_type": "",
        "reads": [],
        "end_ns": end_ns,
        "ending": ending,
        "rewrites": [],
    }


@dataclass(slots=True)
class _Open:
    head: dict[str, Any]
    waits_for: dict[Key, int]  # with each one's place in the order of dispatch
    asked_ns: dict[Key, int]
    deadline_ns: int
    request_bytes: int
    alone: bool  # production has no answer to this copy
    holder: Holder
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    production: Mapping[str, Any] | None = None
    give_up_ns: int | None = None  # set once all arms have answered and only production is missing
    coming_bytes: dict[Key, int] = field(default_factory=dict)  # of answers that have not ended


class Joiner:
    """Joins the answers of one experiment's copies by id, and keeps the books.

    `deliver(pair)` takes a finished pair and returns None, or the reason why it had to drop it.  Once all
    arms have answered, a pair waits `patience_ns` more for production's own answer and goes without it
    then.  Arms are expected to end every answer themselves, their timeouts included.  `deadline_ns` after
    its dispatch whatever arm was asked and has not answered has failed, and its copy is a pair: it must not
    gain by its silence.  What an arm was never asked is no fault of it: such a copy is dropped.

    What copies hold in memory is booked with `room`.  A copy for which there is none is given up in all
    arms, for half a pair compares with nothing: `gave_up(id, head)` is told.
    """

    def __init__(
        self,
        experiment: str,
        deliver: Callable[[dict[str, Any]], str | None],
        *,
        patience_ns: int,
        deadline_ns: int,
        room: Room | None = None,
        gave_up: Callable[[str, Mapping[str, Any]], None] = lambda _id, _head: None,
    ) -> None:
        self._experiment = experiment
        self._deliver = deliver
        self._patience_ns = patience_ns
        self._deadline_ns = deadline_ns
        self._room = room or Room(1 << 62, 1)
        self._gave_up = gave_up
        self._open: dict[str, _Open] = {}
        self._admitted = 0
        self._paired = 0
        self._dropped: Counter[str] = Counter()
        self.inflight = 0  # copies that wait for an arm
        self.held_bytes = 0  # requests under way and answers kept
        self.strays = 0  # answers to no open copy, or a second one from the same arm

    def open(
        self,
        id: str,
        head: Mapping[str, Any],
        arms: Sequence[Key],
        request_bytes: int,
        now_ns: int,
        *,
        alone: bool = False,
        later: Key | None = None,
    ) -> bool:
        """Admit a copy that is sent to `arms` now, in this order, and to the arm `later` once its turn comes.

        `head` are the pair's fields known at dispatch; `alone`: production's answer is not waited for.
        False: a copy of that id is still open, and this one is dropped.
        """
        if id in self._open:
            self.drop(DUPLICATE)
            return False
        self._admitted += 1
        copy = self._open[id] = _Open(
            {"experiment": self._experiment, "id": id, **head},
            {key: order for order, key in enumerate((*arms, later) if later else arms)},
            dict.fromkeys(arms, now_ns),
            now_ns + self._deadline_ns,
            request_bytes,
            alone,
            self._room.enter(partial(self._give_way, id)),
        )
        self.inflight += 1
        self._hold(copy, request_bytes)
        return True

    def note(self, id: str, fields: Mapping[str, Any]) -> None:
        """Add what is known later to a copy's fields, if it is open."""
        if (copy := self._open.get(id)) is not None:
            copy.head.update(fields)

    def asked(self, id: str, key: Key, now_ns: int) -> None:
        """An open copy was sent to the arm whose turn was to come."""
        if (copy := self._open.get(id)) is not None and key in copy.waits_for:
            copy.asked_ns[key] = now_ns

    def lose(self, id: str, reason: str) -> None:
        """Give up a copy that still waits for an arm, if it is open."""
        copy = self._open.get(id)
        if copy is not None and copy.waits_for:
            self._lose(id, copy, reason)

    def drop(self, reason: str, n: int = 1) -> None:
        """Admit `n` copies that are dropped at once."""
        if n:
            self._admitted += n
            self._dropped[reason] += n

    def grows(self, id: str, key: Key, size: int) -> bool:
        """`size` bytes of an arm's answer have come.  False: the copy is given up, and they are not kept."""
        copy = self._open.get(id)
        if copy is None or key not in copy.waits_for or not self._has_room(id, copy, size):
            return False
        copy.coming_bytes[key] = copy.coming_bytes.get(key, 0) + size
        self._hold(copy, size)
        return True

    def answered(self, id: str, answer: Mapping[str, Any], now_ns: int) -> bool:
        """An arm's answer has ended, well or badly.  False: nobody waited for it."""
        copy = self._open.get(id)
        key = (answer["arm"], answer["twin"])
        if copy is None or key not in copy.waits_for:
            self.strays += 1
            return False
        del copy.waits_for[key]
        copy.answers.append(answer)
        self._hold(copy, answer_bytes(answer) - copy.coming_bytes.pop(key, 0))
        if copy.waits_for:
            return True
        self.inflight -= 1
        self._hold(copy, -copy.request_bytes)
        if copy.production is not None or copy.alone:
            self._pair(id, copy)
        else:
            copy.give_up_ns = now_ns + self._patience_ns
        return True

    def served(self, id: str, production: Mapping[str, Any]) -> None:
        """Production's answer, which may come before or after the arms'."""
        copy = self._open.get(id)
        if copy is None or copy.production is not None:
            self.strays += 1
            return
        if not copy.waits_for:
            copy.production = production
            self._pair(id, copy)
        elif self._has_room(id, copy, size := answer_bytes(production)):
            copy.production = production
            self._hold(copy, size)

    def expire(self, now_ns: int) -> None:
        """Let pairs go that have waited long enough, and copies that will never be pairs."""
        for id, copy in list(self._open.items()):
            if copy.give_up_ns is not None:
                if copy.give_up_ns <= now_ns:
                    self._pair(id, copy)
            elif copy.deadline_ns <= now_ns:
                self._fail_silent(id, copy, now_ns)

    def abandon(self, reason: str) -> None:
        """Drop every copy that waits for an arm."""
        for id, copy in list(self._open.items()):
            if copy.waits_for:
                self._lose(id, copy, reason)

    def close(self) -> None:
        """End every open copy: those all arms have answered become pairs, the others are dropped."""
        for id, copy in list(self._open.items()):
            if copy.waits_for:
                self._lose(id, copy, STOPPED)
            else:
                self._pair(id, copy)

    @property
    def open_copies(self) -> int:
        """Copies neither paired nor dropped yet."""
        return len(self._open)

    def is_open(self, id: str) -> bool:
        """Whether the copy `id` is neither paired nor dropped yet."""
        return id in self._open

    def books(self) -> dict[str, Any]:
        """The books so far: admitted = paired + the sum of dropped + open, at every moment."""
        return {
            "experiment": self._experiment,
            "admitted": self._admitted,
            "paired": self._paired,
            "dropped": dict(self._dropped),
            "open": len(self._open),
        }

    def _fail_silent(self, id: str, copy: _Open, now_ns: int) -> None:
        """Nobody will answer any more: those who were asked have failed."""
        if copy.waits_for.keys() - copy.asked_ns.keys():
            self._lose(id, copy, UNSENT)
            return
        for key, order in list(copy.waits_for.items()):
            answer = no_answer(key, order, copy.asked_ns[key], now_ns, UNANSWERED)
            self.answered(id, answer, now_ns)

    def _pair(self, id: str, copy: _Open) -> None:
        self._leave(id, copy)
        answers = sorted(copy.answers, key=lambda answer: int(answer["order"]))
        reason = self._deliver({**copy.head, "answers": answers, "production": copy.production})
        if reason is None:
            self._paired += 1
        else:
            self._dropped[reason] += 1

    def _lose(self, id: str, copy: _Open, reason: str) -> None:
        self._leave(id, copy)
        self.inflight -= 1
        self._dropped[reason] += 1

    def _leave(self, id: str, copy: _Open) -> None:
        del self._open[id]
        self.held_bytes -= copy.holder.held_bytes
        self._room.leave(copy.holder)

    def _hold(self, copy: _Open, size: int) -> None:
        self._room.hold(copy.holder, size)
        self.held_bytes += size

    def _has_room(self, id: str, copy: _Open, size: int) -> bool:
        """Whether an open copy may hold `size` bytes more; where it may not, it is given up."""
        has = self._room.make(size, held_bytes=copy.holder.held_bytes)
        if not has:
            self._give_way(id)
        return has

    def _give_way(self, id: str) -> None:
        """What a copy holds is needed: it is dropped, or a pair now where only production is missing."""
        copy = self._open[id]
        if copy.waits_for:
            self._lose(id, copy, OVERLOAD)
            self._gave_up(id, copy.head)
        else:
            self._pair(id, copy)
