"""How does a copy go to all arms at one moment, and what follows upon the control's answer to it likewise?"""

from collections.abc import Callable
from random import Random
from time import monotonic_ns
from typing import Any

from mirror import ids
from mirror.admit import OVERLOAD, Phase
from mirror.arms import Prepared
from mirror.frames import Copy
from mirror.golden import GOLDEN
from mirror.heads import copy_head
from mirror.pair import WARM_UP, Joiner, no_answer
from mirror.readiness import NOT_READY
from mirror.room import Room
from mirror.sequel import Done, Sequel
from mirror.sequels import Sequels
from mirror.slots import Block
from mirror.spec import CONTROL, MirrorExperiment


class Dispatch:
    """Sends one experiment's copies, in random order.

    `phase()` is the analysis's word; `failing()` are the arms that fail what they are due unasked;
    `goes_on()` says whether anything may follow upon an answer now; `tell_ids(frame)` takes the token ids of
    copies' prompts where they are wanted.
    """

    def __init__(
        self,
        experiment: MirrorExperiment,
        joiner: Joiner,
        sequels: Sequels,
        rng: Random,
        room: Room,
        *,
        phase: Callable[[], Phase],
        failing: Callable[[], list[str]],
        goes_on: Callable[[], bool],
        tell_ids: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._experiment = experiment
        self._joiner = joiner
        self._sequels = sequels
        self._rng = rng
        self._room = room
        self._phase = phase
        self._failing = failing
        self._goes_on = goes_on
        self._tell_ids = tell_ids
        self._warm_ns: int | None = None  # until then pairs are marked; None: no copy was sent yet

    def rest(self) -> None:
        """Nothing is sent for a while: what comes after it begins cold."""
        self._warm_ns = None

    def send(
        self,
        copy: Copy,
        duplicate: int,
        prepared: list[Prepared],
        size: int,
        *,
        block: Block | None,
        form: dict[str, bytes],
    ) -> None:
        """Send one copy, which holds `size` bytes, to all arms; `duplicate` says which of those of its
        request it is, `form` what shapes its answers."""
        joiner, phase = self._joiner, self._phase()
        id = f"{copy.id}~{duplicate}" if duplicate else copy.id
        sequel = self._sequels.now
        self._rng.shuffle(prepared)

        def done(answer: dict[str, Any]) -> None:
            tell = None if duplicate else self._tell_ids
            if tell is not None and (told := ids.told_by(copy, answer)) is not None:
                tell(told)
            is_wanted = joiner.answered(id, answer, monotonic_ns())
            if is_wanted and sequel is not None and answer["arm"] == CONTROL and self._goes_on():
                self._follow(copy, duplicate, answer, sequel)

        at_ns = monotonic_ns()
        mark = GOLDEN if copy.golden is not None else self._sequels.source
        if at_ns < self._warm_until(at_ns, block):
            mark = WARM_UP
        head = copy_head(copy, at_ns, phase, mark=mark, block=block, duplicate=duplicate, asked=form)
        keys = [(p.arm.spec.side, p.twin) for p in prepared]
        later = None if block is None else (block.second.arm, block.second.twin)
        # Production answers none of these.
        replayed = self._experiment.replay is not None
        alone = duplicate > 0 or replayed or copy.golden is not None or not copy.observed
        if not joiner.open(id, head, keys, size, at_ns, alone=alone, later=later):
            return
        if block is not None:
            block.hold(at_ns, id, copy, duplicate)
        self._to_all(id, prepared, at_ns, done)

    def _follow(self, copy: Copy, duplicate: int, answer: dict[str, Any], sequel: Sequel) -> None:
        """The control has answered: what follows upon it goes to all arms now, at one moment."""
        following = sequel.after(copy, answer, duplicate)
        if following is None:
            return
        joiner, prepared, at_ns = self._joiner, following.prepared, monotonic_ns()
        id = f"{copy.id}~{duplicate}~{sequel.phase}"
        self._rng.shuffle(prepared)
        mark = WARM_UP if at_ns < self._warm_until(at_ns, None) else None
        head = sequel.head(copy, at_ns, self._phase().epoch, mark, duplicate) | following.told
        size = sum(len(each.request) for each in prepared)
        if not self._room.make(size):
            joiner.drop(OVERLOAD)
            return
        if not joiner.open(id, head, [(p.arm.spec.name, p.twin) for p in prepared], size, at_ns, alone=True):
            return
        done = sequel.heard(following, lambda answer: joiner.answered(id, answer, monotonic_ns()))
        self._to_all(id, prepared, at_ns, done)

    def _to_all(self, id: str, prepared: list[Prepared], at_ns: int, done: Done) -> None:
        """Nothing awaits from the first to the last: the arms get it at one moment."""
        failing = self._failing()
        for order, each in enumerate(prepared):
            if each.arm.spec.name in failing:
                done(no_answer((each.arm.spec.side, each.twin), order, at_ns, at_ns, NOT_READY))
            else:
                each.arm.send(id, each, order, grows=self._joiner.grows, done=done)

    def _warm_until(self, at_ns: int, block: Block | None) -> int:
        warm_up_ns = int(self._experiment.warm_up_s * 1e9)
        if block is not None:
            return (block.since_ns or at_ns) + warm_up_ns
        if self._warm_ns is None:
            self._warm_ns = at_ns + warm_up_ns
        return self._warm_ns
