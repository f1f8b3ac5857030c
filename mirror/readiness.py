"""Which launched engines may have copies?  As the supervisor says; those that are not launched always may."""

import json

from mirror.spec import MirrorExperiment

NOT_READY = "arm_not_ready"


class Readiness:
    """The supervisor's last word.  An arm is meant with its mark: what it was launched with."""

    def __init__(self) -> None:
        self._ready: frozenset[tuple[str, str, str]] = frozenset()

    def told(self, body: bytes) -> None:
        """These arms are ready, and no others: [[experiment, arm, mark], ...]."""
        self._ready = frozenset((str(e), str(arm), str(mark)) for e, arm, mark in json.loads(body))

    def lacking(self, experiment: MirrorExperiment) -> list[str]:
        """The arms for which its copies must wait: all arms get them, or none does."""
        return [
            arm.name
            for arm in experiment.arms
            if arm.mark and (experiment.name, arm.name, arm.mark) not in self._ready
        ]
