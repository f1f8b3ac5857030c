"""Whether the shadow process takes a copy: by phase, by room, and whole conversations or none."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

PhaseName = Literal["calibration", "live", "paused"]

CALIBRATION = "calibration"
PAUSED = "paused"
OVERLOAD = "overload"
JOINED_LATE = "joined_late"


@dataclass(frozen=True, slots=True)
class Phase:
    """What an experiment does now, as the analysis says; `epoch` grows when the experiment changes."""

    name: PhaseName = "calibration"
    epoch: int = 0


class Admission:
    """Decides for the copies of one experiment, in the order they come.

    While calibrating, only conversations with an even root are taken, for each is sent twice: the load per
    arm stays what it will be.  A conversation that lost one turn loses its later ones too, for the same
    reason, in all arms, until it begins anew.  The memory is bounded to the `remember` conversations used
    last.
    """

    def __init__(self, max_inflight: int, remember: int = 100_000) -> None:
        self._max_inflight = max_inflight
        self._remember = remember
        self._closed: OrderedDict[int, str | None] = OrderedDict()  # root -> why it was closed; None: open

    def refusal(self, root: int, turn: int, *, phase: Phase, inflight: int, room: bool) -> str | None:
        """Why a copy is dropped, or None to take it.

        `inflight` counts the copies that wait for an arm; `room` says whether its bytes may be held.
        """
        reason = self._refusal(root, turn, phase, inflight, room)
        self._closed[root] = reason
        self._closed.move_to_end(root)
        if len(self._closed) > self._remember:
            self._closed.popitem(last=False)
        return reason

    def _refusal(self, root: int, turn: int, phase: Phase, inflight: int, room: bool) -> str | None:
        if phase.name == "paused":
            return PAUSED
        if turn > 0 and (closed := self._closed.get(root, JOINED_LATE)) is not None:
            return closed
        if phase.name == "calibration" and root & 1:
            return CALIBRATION
        if inflight >= self._max_inflight or not room:
            return OVERLOAD
        return None
