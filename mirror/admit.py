"""Whether the shadow process takes a copy: by phase, by load, and whole conversations or none."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

PhaseName = Literal["calibration", "forced", "scored", "live", "paused"]

PAUSED = "paused"
OVERLOAD = "overload"
JOINED_LATE = "joined_late"
TURN_MISSING = "turn_missing"


@dataclass(frozen=True, slots=True)
class Phase:
    """What an experiment does now, as the analysis says; `epoch` grows when the experiment changes.

    Where arms take turns: the number of the next block, and how many blocks candidates have had so far.
    `out` are the candidates that left the race: they get no more copies.
    """

    name: PhaseName = "calibration"
    epoch: int = 0
    blocks: int = 0
    turns: int = 0
    out: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Conversation:
    closed: str | None  # why no turn of it is taken any more; None: it is open
    turn: int  # the latest that was taken
    copies: int  # how often each of its turns is sent


class Admission:
    """Decides for the copies of one experiment, in the order they come.

    While calibrating, and while tokens are forced or scored, only conversations with an even root are taken,
    for each is sent twice: the load per arm stays what it will be.  A conversation that lost one turn loses
    its later ones too, in all arms, until it begins anew; so does one whose next turn is not the one that
    must follow, for a worker dropped that.  Under load the door closes before the house is full: at three
    quarters of `max_inflight` no conversation begins any more, so that those that run can end.  The memory is
    bounded to the `remember` conversations used last.
    """

    def __init__(self, max_inflight: int, remember: int = 100_000) -> None:
        self._max_inflight = max_inflight
        self._most_to_begin = max_inflight - max_inflight // 4
        self._remember = remember
        self._known: OrderedDict[int, _Conversation] = OrderedDict()

    def refusal(self, root: int, turn: int, *, phase: Phase, inflight: int, copies: int = 1) -> str | None:
        """Why a copy is dropped, or None to take it.

        `inflight` counts the copies that wait for an arm; `copies` is how often a conversation that begins
        now is sent.
        """
        known = self._known.get(root)
        reason = self._refusal(known, root, turn, phase, inflight)
        if known is None or (turn == 0 and reason is None and known.closed is not None):
            # Of two that begin with the same words, the one that runs is not cut by the other's beginning.
            self._known[root] = _Conversation(reason, turn, copies)
        elif reason is None:
            known.turn = max(known.turn, turn)
        else:
            known.closed = reason
        self._known.move_to_end(root)
        if len(self._known) > self._remember:
            self._known.popitem(last=False)
        return reason

    def copies(self, root: int) -> int:
        """How often each turn of a conversation is sent: fixed when it begins, for as long as it is open."""
        known = self._known.get(root)
        return 1 if known is None else known.copies

    def lost(self, root: int, reason: str) -> None:
        """A turn that was taken was not sent, or not answered to its end here: no later one is taken."""
        if (known := self._known.get(root)) is not None:
            known.closed = reason

    def forget(self) -> None:
        """Take up no conversation that runs: what is taken from now on begins now."""
        self._known.clear()

    def _refusal(
        self, known: _Conversation | None, root: int, turn: int, phase: Phase, inflight: int
    ) -> str | None:
        if phase.name == "paused":
            return PAUSED
        if turn > 0:
            if known is None:
                return JOINED_LATE
            if known.closed is not None:
                return known.closed
            if turn > known.turn + 1:
                return TURN_MISSING
        if phase.name in ("calibration", "forced", "scored") and root & 1:
            return phase.name
        limit = self._max_inflight if turn > 0 else self._most_to_begin
        if inflight >= limit:
            return OVERLOAD
        return None
