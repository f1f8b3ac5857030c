"""Which requests follow upon the control's answers now?  One phase's at a time, and the last before it."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from mirror.admit import PhaseName
from mirror.arms import Arm
from mirror.forcing import Forcing
from mirror.scoring import Scoring
from mirror.sequel import Sequel
from mirror.spec import MirrorExperiment


class Sequels:
    """One experiment's.  `spawn(work, name)` runs what asks the arms whether they can."""

    def __init__(
        self,
        arms: Sequence[Arm],
        experiment: MirrorExperiment,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._arms = arms
        self._experiment = experiment
        self._spawn = spawn
        self._before: Sequel | None = None
        self.now: Sequel | None = None

    def enter(self, phase: PhaseName) -> None:
        """The experiment is in this phase: arms are asked anew where it was not."""
        if self.now is not None:
            if self.now.phase == phase:
                return
            self._before, self.now = self.now, None
        if phase == "forced":
            self.now = Forcing(self._arms)
        elif phase == "scored":
            self.now = Scoring(self._arms, self._experiment.scored_rows)
        if self.now is not None:
            self._spawn(self.now.ask(), f"who takes part in {phase} of {self._experiment.name}")

    def ended(self, id: str, reason: str | None) -> None:
        """The pair `id` was told to the analysis (None), or dropped for a reason."""
        if self.now is not None and id.endswith(f"~{self.now.phase}"):
            self.now.ended(reason)

    @property
    def source(self) -> str | None:
        """The mark of a copy beside which such requests run: its timing tells nothing."""
        if self.now is not None:
            return self.now.source
        before = self._before
        return before.source if before is not None and before.under_way else None

    @property
    def left(self) -> dict[str, int]:
        """The control's answers of this phase upon which nothing followed, by why."""
        return {} if self.now is None else dict(self.now.left)

    @property
    def undone(self) -> tuple[PhaseName, str] | None:
        """The phase that cannot be, and why."""
        return None if self.now is None or self.now.why is None else (self.now.phase, self.now.why)
