"""What comes between the calibration and the trial?  Phases of their own, in which no latency is judged."""

from collections.abc import Mapping
from typing import Any, Literal

from analysis.calibration import Calibration
from analysis.forced import ForcedPhase
from analysis.measure import PairRecord
from analysis.scored import ScoredPhase
from analysis.spec import ExperimentSpec
from analysis.stats.windows import Windows

Between = Literal["forced", "scored"]

# The frames and records that say that one cannot be.
UNDONE: Mapping[str, Between] = {"unforced": "forced", "unscored": "scored"}


class Phases:
    """Those that were asked for, one after the other."""

    def __init__(self, spec: ExperimentSpec, found: Calibration, *, alpha: float, margin: float) -> None:
        self._all: dict[Between, ForcedPhase | ScoredPhase] = {}
        if spec.forced_pairs:
            windows = Windows(found.window_ns, found.settle_ns)
            self._all["forced"] = ForcedPhase(
                spec.forced_pairs, spec.candidates, windows, alpha=alpha, margin=margin
            )
        if spec.scored_pairs:
            self._all["scored"] = ScoredPhase(spec.scored_pairs, spec.candidates, alpha=alpha)

    @property
    def now(self) -> Between | None:
        """The one that lasts, None where they are over."""
        return next((name for name, phase in self._all.items() if not phase.is_over), None)

    def add(self, record: PairRecord) -> bool:
        """Takes a pair of the one that lasts; False where none does."""
        if (now := self.now) is None:
            return False
        self._all[now].add(record)
        return True

    def give_up(self, name: Between, why: str) -> None:
        """One cannot be."""
        if (phase := self._all.get(name)) is not None:
            phase.give_up(why)

    def show(self) -> Mapping[str, dict[str, Any]]:
        """JSON-able, by name, those that were asked for."""
        return {name: phase.show() for name, phase in self._all.items()}
