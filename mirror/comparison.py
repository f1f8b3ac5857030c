"""One experiment at work: which copies are taken, and their dispatch to all arms at once."""

import asyncio
from collections.abc import Callable
from random import Random
from time import monotonic_ns
from typing import Any

from mirror import ids
from mirror.admit import Admission, Phase
from mirror.arms import TOO_LARGE, Arm
from mirror.frames import Copy, Served, production_answer
from mirror.pair import DUPLICATE, STOPPED, Joiner
from mirror.rewrite import Body
from mirror.sample import copyable
from mirror.spec import MirrorExperiment, ShadowSpec

UNSENDABLE = "unsendable"
NOT_COPYABLE = "not_copyable"

# How long after its own timeouts an arm's answer may still be missing before its copy is given up as lost.
_GRACE_S = 5.0


class Comparison:
    """Takes the copies of one experiment, sends them, and delivers pairs.

    `deliver(pair)` returns None, or why the pair was dropped.  `held_bytes()` is the memory all experiments
    hold.  `tell_ids(frame)` takes the token ids of copies' prompts where they are wanted (`mirror.ids`).
    """

    def __init__(
        self,
        experiment: MirrorExperiment,
        spec: ShadowSpec,
        *,
        rng: Random,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[dict[str, Any]], str | None],
        held_bytes: Callable[[], int],
        tell_ids: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.experiment = experiment
        self.phase = Phase()
        self.arms = [
            Arm(arm, experiment, loop=loop, answer_bytes=spec.answer_bytes) for arm in experiment.arms
        ]
        self.joiner = Joiner(
            experiment.name,
            deliver,
            patience_ns=int(spec.patience_s * 1e9),
            deadline_ns=int((experiment.timeout_s + _GRACE_S) * 1e9),
        )
        self._spec = spec
        self._rng = rng
        self._admission = Admission(experiment.max_inflight)
        self._held_bytes = held_bytes
        self._tell_ids = tell_ids
        self._stopping = False

    @property
    def held_bytes(self) -> int:
        """The memory of this experiment's copies: requests, answers under way, answers kept."""
        return self.joiner.held_bytes + sum(arm.receiving_bytes for arm in self.arms)

    def take(self, copy: Copy) -> None:
        """Send a copy to all arms now, or drop it and count why."""
        joiner, phase = self.joiner, self.phase
        if joiner.is_open(copy.id):
            joiner.drop(DUPLICATE)
            return
        twins = (0, 1) if phase.name == "calibration" else (0,)
        size = len(copy.body) * len(self.arms) * len(twins)
        reason = self._unfit(copy) or self._admission.refusal(
            copy.root,
            copy.turn,
            phase=phase,
            inflight=joiner.inflight,
            room=self._held_bytes() + size <= self._spec.held_bytes,
        )
        if reason is not None:
            joiner.drop(reason)
            return
        encoded = any(name.lower() == b"content-encoding" for name, _ in copy.headers)
        body = Body(copy.path, copy.body, encoded=encoded)
        try:
            prepared = [arm.prepare(copy, body, twin) for arm in self.arms for twin in twins]
        except ValueError:
            joiner.drop(UNSENDABLE)
            return
        self._rng.shuffle(prepared)

        def done(answer: dict[str, Any]) -> None:
            if self._tell_ids is not None and (told := ids.told_by(copy, answer)) is not None:
                self._tell_ids(told)
            joiner.answered(copy.id, answer, monotonic_ns())

        at_ns = monotonic_ns()
        head = {
            "phase": phase.name,
            "epoch": phase.epoch,
            "at_ns": at_ns,
            "received_ns": copy.received_ns,
            "production_sent_ns": copy.sent_ns,
            "path": copy.path.partition("?")[0],
            "stream": copy.stream,
            "root": copy.root,
            "turn": copy.turn,
        }
        joiner.open(copy.id, head, [(p.arm.spec.name, p.twin) for p in prepared], size, at_ns)
        # Nothing awaits from the first to the last: the arms get the copy at one moment.
        for order, each in enumerate(prepared):
            each.arm.send(each, order, done)

    def served(self, served: Served) -> None:
        """Production's own answer to a copy has ended."""
        if self.joiner.is_open(served.id):
            self.joiner.served(served.id, production_answer(served))

    def tick(self) -> None:
        """Let go what has waited long enough; about once a second."""
        now_ns = monotonic_ns()
        self.joiner.expire(now_ns)
        for arm in self.arms:
            arm.pool.sweep(now_ns)

    def books(self) -> dict[str, Any]:
        """The books, their epoch, and the rewrites applied to copies so far: {arm: {rewrite: n}}."""
        rewrites = {arm.spec.name: dict(arm.rewrites) for arm in self.arms}
        return {**self.joiner.books(), "epoch": self.phase.epoch, "rewrites": rewrites}

    def status(self) -> dict[str, Any]:
        """What the experiment is doing, for the status frame."""
        return {
            "experiment": self.experiment.name,
            "phase": self.phase.name,
            "epoch": self.phase.epoch,
            "inflight": self.joiner.inflight,
            "held_bytes": self.held_bytes,
            "strays": self.joiner.strays,
            "arms": [arm.status() for arm in self.arms],
        }

    def stop(self) -> None:
        """Take no more copies; those under way go on."""
        self._stopping = True

    def close(self) -> None:
        """End what is under way: it is dropped, not held against the arms."""
        self.joiner.close()
        for arm in self.arms:
            arm.close()

    def _unfit(self, copy: Copy) -> str | None:
        if self._stopping:
            return STOPPED
        if not copyable(copy.path, copy.headers):
            return NOT_COPYABLE
        if len(copy.body) > self._spec.copy_bytes:
            return TOO_LARGE
        return None
