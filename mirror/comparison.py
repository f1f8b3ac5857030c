"""One experiment at work: which copies are taken, and for which arms."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from time import monotonic_ns
from typing import Any

from mirror.admit import OVERLOAD, Admission, Phase
from mirror.arms import TOO_LARGE, Arm
from mirror.copyable import copyable
from mirror.dispatch import Dispatch
from mirror.frames import Copy, Load, Served, production_answer
from mirror.golden import Golden
from mirror.lane import PAUSED
from mirror.matching import Matching, Slice
from mirror.pace import Pace
from mirror.pair import DRAIN, DUPLICATE, STOPPED, Joiner
from mirror.readiness import NOT_READY
from mirror.rewrite import Body
from mirror.room import Room
from mirror.sample import copies_of
from mirror.sequels import Sequels
from mirror.slots import BETWEEN_SLOTS
from mirror.spec import CONTROL, TWIN, MirrorExperiment, ShadowSpec, SlotSpec
from mirror.stand import Stand
from mirror.switchback import Bring, Over, Switchback
from mirror.traffic import Live, Open, Replayed
from wire.tasks import Tasks

UNSENDABLE, NOT_COPYABLE = "unsendable", "not_copyable"

# How long after its own timeouts an arm's answer may still be missing before its copy is given up as lost.
_GRACE_S = 5.0


class Comparison:
    """Takes the copies of one experiment, sends them, and delivers pairs.

    `deliver(pair)` returns None, or why the pair was dropped.  `room` is the memory for all experiments'
    copies.  `tell_ids(frame)` takes the token ids of copies' prompts where they are wanted (`mirror.ids`).
    `lacking()` are the arms that are not ready for copies, `lost()` those that went by no fault of theirs,
    `forgone()` those that never will be and are not waited for.
    `bring(arm)` makes an arm stand where they take turns; left out, by its address.  `over()` is told once
    nothing more is sent, `recorded` reads what is replayed.
    """

    def __init__(
        self,
        experiment: MirrorExperiment,
        spec: ShadowSpec,
        *,
        rng: Random,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[dict[str, Any]], str | None],
        room: Room,
        tell_ids: Callable[[bytes], bool] | None = None,
        lacking: Callable[[], list[str]] = list,
        lost: Callable[[], list[str]] = list,
        forgone: Callable[[], list[str]] = list,
        bring: Bring | None = None,
        over: Over | None = None,
        recorded: Open | None = None,
    ) -> None:
        self.experiment = experiment
        self._phase = Phase()
        self.matching = Matching(experiment.rate, auto=experiment.auto, most=experiment.most_times)
        self.engines = [
            Arm(arm, experiment, loop=loop, answer_bytes=spec.answer_bytes) for arm in experiment.engines
        ]
        self.arms = self.engines[: len(experiment.arms)]  # without the control's second engine
        self.joiner = Joiner(
            experiment.name,
            self._marked(deliver),
            patience_ns=int(spec.patience_s * 1e9),
            deadline_ns=int((experiment.longest_s + _GRACE_S) * 1e9),
            room=room,
            gave_up=self._gave_up,
        )
        self._spec = spec
        self._admission = Admission(experiment.max_inflight)
        self._golden = Golden(experiment, monotonic_ns)
        self._room = room
        self._lacking = lacking
        self._lost = lost
        self._forgone = forgone
        self._stopping = False
        self._tasks = Tasks()
        self._sequels = Sequels(self.arms, experiment, lambda work, name: self._tasks.spawn(work, name=name))
        self._slots: Switchback | None = None
        self.paused = False
        self._dispatch = Dispatch(
            experiment,
            self.joiner,
            self._sequels,
            rng,
            room,
            phase=lambda: self._phase,
            failing=self._failing,
            goes_on=lambda: not (self._stopping or self._rests),
            tell_ids=tell_ids,
        )
        if experiment.slots is not None:
            self._take_turns(experiment.slots, bring, over, recorded)

    @property
    def phase(self) -> Phase:
        """What the experiment does now, as the analysis says."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        if phase.name == "paused":
            self._rest()
        if self._phase.out - phase.out:
            self._admission.forget()  # who comes back lacks what conversations that run have had
        self._phase = phase
        if self._slots is None:
            self._sequels.enter(phase.name)

    @property
    def reached(self) -> Phase:
        """The phase, with the blocks that were begun here."""
        return self._phase if self._slots is None else self._slots.reached(self._phase)

    @property
    def undone(self) -> tuple[str, str] | None:
        """The phase that cannot be, and why, where it was asked for."""
        return self._sequels.undone

    def _take_turns(
        self, spec: SlotSpec, bring: Bring | None, over: Over | None, recorded: Open | None
    ) -> None:
        experiment = self.experiment
        replays = experiment.replay is not None and recorded is not None
        self._slots = Switchback(
            {arm.spec.name: arm for arm in self.arms},
            self.joiner,
            bring or Stand(spec.switch, spec.ready_s).bring,
            Replayed(experiment, recorded, self.take) if replays and recorded else Live(spec.seconds),
            Pace(spec.seconds),
            phase=lambda: replace(self._phase, name="paused") if self._rests else self._phase,
            began=self._admission.forget,
            missing=self._missing,
            failing=self._failing,
            over=over,
        )
        self._turning = self._tasks.spawn(self._slots.run(), name=f"slots of {self.experiment.name}")

    def _missing(self) -> list[str]:
        """The arms for which copies wait: where arms take turns, at most the one that stands."""
        lacking = self._lacking()
        if self._slots is not None:
            return [name for name in lacking if name == self._slots.standing]
        no_copies = self._phase.out if self._phase.name == "calibration" else {TWIN, *self._phase.out}
        return [name for name in lacking if name not in no_copies]

    def _failing(self) -> list[str]:
        """The arms that fail what they are due, as if they were asked: those that were given up; where they
        take turns, the one that stood when its turn began, and went."""
        if self._slots is None:
            return self._forgone()
        return [name for name in self._missing() if name not in self._lost()]

    @property
    def _rests(self) -> bool:
        """Whether nothing is copied: the analysis says so, or the switch."""
        return self.paused or self._phase.name == "paused"

    @property
    def _doubles(self) -> bool:
        """Whether each copy is sent twice: the control is held against itself, and nothing else gives the
        second answer, neither a second engine nor the candidates' slots."""
        is_alone = self._slots is None and self.experiment.twin is None
        return is_alone and self._phase.name == "calibration"

    def _rest(self) -> None:
        """Nothing is copied from now on: what comes after it begins cold, and its load is no arm's doing."""
        self._dispatch.rest()
        self.matching.pause()

    def take(self, copy: Copy) -> None:
        """Send a copy to all arms now, or drop it and count why."""
        joiner, phase = self.joiner, self.phase
        if joiner.is_open(copy.id):
            joiner.drop(DUPLICATE)
            return
        block = None if self._slots is None else self._slots.block
        if self._slots is not None and (block is None or not block.is_open) and not self._stopping:
            joiner.drop(self._unfit(copy) or BETWEEN_SLOTS)
            return
        twins, arms = (0, 1) if self._doubles else (0,), self.engines
        if block is not None:
            arms = [arm for arm in arms if arm.spec.name == block.first.arm]
        elif phase.name != "calibration":
            arms = [arm for arm in self.arms if arm.spec.name not in phase.out]
        rate = self.matching.rate if copy.golden is None else 1.0
        times = copies_of(self.experiment.salt, copy.root, rate)
        size = len(copy.body) * (1 + len(arms) * len(twins))  # itself, and what is made of it for each
        reason = self._unfit(copy) or self._admission.refusal(
            copy.root,
            copy.turn,
            phase=phase if phase.name != "calibration" or self._doubles else replace(phase, name="live"),
            inflight=joiner.inflight if block is None else len(arms[0].reading),
            copies=times,
        )
        if reason is not None:
            joiner.drop(reason)
            return
        times = self._admission.copies(copy.root)
        if not self._room.make(size, copies=times, begins=copy.turn == 0):
            self._lose(copy.root, OVERLOAD)
            return
        encoded = any(name.lower() == b"content-encoding" for name, _ in copy.headers)
        body = Body(copy.path, copy.body, encoded=encoded)
        try:
            duplicates = [
                [
                    arm.prepare(
                        copy,
                        body,
                        twin,
                        number,
                        slot=None if block is None else block.since_ns,
                        ids=phase.name == "scored" and arm.spec.name == CONTROL,
                    )
                    for arm in arms
                    for twin in twins
                ]
                for number in range(times)
            ]
        except ValueError:
            self._lose(copy.root, UNSENDABLE)
            return
        for number, prepared in enumerate(duplicates):
            self._dispatch.send(copy, number, prepared, size, block=block, form=body.form())
        for arm in self.arms if block is None else ():
            arm.spared += 0 if arm in arms else times
        due = (phase.name,) if block is None else (block.phase, block.second.arm)
        if copy.golden is None and (next := self._golden.due(*due)) is not None:
            self.take(next)

    def _lose(self, root: int, reason: str) -> None:
        """A turn that was to be taken is dropped, and no later one of its conversation is taken."""
        self.joiner.drop(reason)
        self._admission.lost(root, reason)

    def _gave_up(self, id: str, head: Mapping[str, Any]) -> None:
        """An open copy was dropped for want of memory: no arm goes on with it, nor with its conversation."""
        self._admission.lost(head["root"], OVERLOAD)
        for arm in self.engines:
            arm.give_up(id)
        if self._slots is not None:
            self._slots.let_go(id)

    def served(self, served: Served) -> None:
        """Production's own answer to a copy has ended."""
        if self.joiner.is_open(served.id):
            self.joiner.served(served.id, production_answer(served))

    def production_load(self, load: Load) -> None:
        """How long a worker's requests were in flight."""
        self.matching.production(load.worker, load.at_ns, load.busy_ns, load.engines)

    def tick(self) -> Slice | None:
        """Let go what has waited long enough, once a second or so; the slice of load that ends, if any."""
        now_ns = monotonic_ns()
        self.joiner.expire(now_ns)
        for arm in self.engines:
            arm.pool.sweep(now_ns)
        if self._rests or self._missing():
            self._rest()
            return None
        if self._stopping or self._slots is not None:
            return None
        arms = (arm for arm in self.arms if arm.spec.name not in self._phase.out)
        busy_ns = {arm.spec.name: arm.busy_ns(now_ns) for arm in arms}
        return self.matching.look(now_ns, busy_ns, doubled=self._doubles)

    def books(self) -> dict[str, Any]:
        """The books, their epoch, and the rewrites applied to copies so far: {arm: {rewrite: n}}."""
        rewrites = {arm.spec.name: dict(arm.rewrites) for arm in self.engines}
        done = None if self._slots is None else self._slots.replayed
        return {**self.joiner.books(), "epoch": self.phase.epoch, "rewrites": rewrites, "replay": done}

    def status(self) -> dict[str, Any]:
        """What the experiment is doing, for the status frame."""
        return {
            "experiment": self.experiment.name,
            "phase": self.phase.name,
            "paused": self.paused,
            "epoch": self.phase.epoch,
            "inflight": self.joiner.inflight,
            "held_bytes": self.joiner.held_bytes,
            "strays": self.joiner.strays,
            "lacking": self._missing(),
            "rate": self.matching.rate,
            "left_out": self._sequels.left,
            "slots": None if self._slots is None else self._slots.status(),
            "arms": [arm.status() for arm in self.engines],
        }

    def stop(self) -> None:
        """Take no more copies; those under way go on."""
        self._stopping = True
        if self._slots is not None:
            self._turning.cancel()
            self._slots.stop(STOPPED)

    def switch(self, paused: bool) -> None:
        """Pause: take no more copies, and give up those that wait for an arm, so that it is rid of them now.

        Conversations do not outlast a pause, for they lost turns: only those that begin after it are copied.
        """
        was, self.paused = self.paused, paused  # first, so that no answer given up here is gone on with
        if paused and not was:
            self._rest()
            self.joiner.abandon(PAUSED)
            for arm in self.engines:
                arm.give_up()
            self._admission.forget()
            if self._slots is not None:
                self._slots.disturb()

    def close(self) -> None:
        """End what is under way: it is dropped, not held against the arms."""
        self.joiner.close()
        for arm in self.engines:
            arm.close()

    def _marked(
        self, deliver: Callable[[dict[str, Any]], str | None]
    ) -> Callable[[dict[str, Any]], str | None]:
        """What ends while the experiment ends had ever less beside it."""

        def marking(pair: dict[str, Any]) -> str | None:
            if self._stopping and pair.get("mark") is None:
                pair["mark"] = DRAIN
            reason = deliver(pair)
            self._sequels.ended(pair["id"], reason)
            return reason

        return marking

    def _unfit(self, copy: Copy) -> str | None:
        if self._stopping:
            return STOPPED
        if self.paused:
            return PAUSED
        if self._missing() and (self._slots is None or not self._failing()):
            return NOT_READY
        if not copyable(copy.path, copy.headers):
            return NOT_COPYABLE
        if len(copy.body) > self._spec.copy_bytes:
            return TOO_LARGE
        return None
