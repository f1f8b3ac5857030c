"""Which launched engines may have copies?  As the supervisor says; those that are not launched always may."""

import json
from typing import NamedTuple

from mirror.spec import ArmSpec, MirrorExperiment

NOT_READY = "arm_not_ready"
GIVEN_UP = "failed"


class Fares(NamedTuple):
    """How a launched engine of an experiment whose arms take turns fares: its state, and why."""

    state: str
    why: str | None = None


class Readiness:
    """The supervisor's last word.  An arm is meant with its mark: what it was launched with."""

    def __init__(self) -> None:
        self._ready: frozenset[tuple[str, str, str]] = frozenset()
        self._forgone: frozenset[tuple[str, str, str]] = frozenset()
        self._fares: dict[tuple[str, str, str], Fares] = {}
        self._losses = 0  # how often the process that launches engines was lost, and they with it
        self._lost: frozenset[tuple[str, str, str]] = frozenset()

    def told(self, body: bytes) -> None:
        """These arms are ready, these will never be, and how those fare that take turns."""
        said = json.loads(body)
        ready = frozenset((str(e), str(arm), str(mark)) for e, arm, mark in said["ready"])
        self._forgone = frozenset((str(e), str(arm), str(mark)) for e, arm, mark in said["forgone"])
        if said["losses"] > self._losses:
            self._lost |= self._ready
        self._losses = said["losses"]
        self._lost -= ready
        self._ready = ready
        self._fares = {
            (str(e), str(arm), str(mark)): Fares(str(state), why)
            for e, arm, mark, state, why in said["fares"]
        }

    def is_ready(self, experiment: str, arm: ArmSpec) -> bool:
        """Whether it may have copies."""
        return not arm.mark or (experiment, arm.name, arm.mark) in self._ready

    def fares(self, experiment: str, arm: ArmSpec) -> Fares:
        """How it fares, as far as that was told."""
        return self._fares.get((experiment, arm.name, arm.mark), Fares("not started"))

    def lacking(self, experiment: MirrorExperiment) -> list[str]:
        """The arms for which its copies must wait: all arms get them, or none does."""
        forgone = self.forgone(experiment)
        arms = (arm for arm in experiment.engines if arm.name not in forgone)
        return [arm.name for arm in arms if not self.is_ready(experiment.name, arm)]

    def forgone(self, experiment: MirrorExperiment) -> list[str]:
        """The arms that were given up and hold no other up: they fail what they are due.

        They are not asked: nobody listens at their addresses any more, or somebody else does.
        """
        name = experiment.name
        return [arm.name for arm in experiment.engines if (name, arm.name, arm.mark) in self._forgone]

    def lost(self, experiment: MirrorExperiment) -> list[str]:
        """Those of them that went with the process that launched them: no failure of theirs."""
        name = experiment.name
        return [arm.name for arm in experiment.engines if (name, arm.name, arm.mark) in self._lost]
