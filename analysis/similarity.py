"""How alike are answers in meaning, beside how alike the control's own are?  By windows, as outputs are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.calibration import floor_of
from analysis.modes import LIVE
from analysis.outputs import output_shown
from analysis.score_intervals import score_interval, why_no_interval
from analysis.stats.windows import Windows
from analysis.verdict import Spread
from analysis.wording import no_score

NAME = "embedding_similarity"
_CONTROL = "control"


class Similarity:
    """What a server of embeddings said of one experiment's pairs; it comes after them, and late ones count.

    `model` is the one that is asked, empty where none is.  `alpha` is the experiment's: candidates share it.
    """

    def __init__(self, model: str, candidates: Sequence[str], alpha: float) -> None:
        self._model = model
        self._floor_alpha = alpha / 2
        self._alpha = alpha / 2 / max(1, len(candidates))  # the other half is spent on the floor
        self._floor: list[tuple[int, str, float]] = []
        self._windows: Windows | None = None
        self._blocks_ns = 0
        self._pairs = 0
        self._why: str | None = None
        self._dropped: Counter[str] = Counter()

    def begin(self, windows: Windows, blocks_ns: int) -> None:
        """The calibration is over: `windows` are as long as the trial's, and empty; the first block is at
        `blocks_ns`, and each is a window."""
        self._windows, self._blocks_ns = windows, blocks_ns

    def finish(self) -> None:
        """All pairs have come: the windows that are open are whole."""
        if self._windows is not None:
            self._windows.finish()

    def add(self, body: Mapping[str, Any]) -> None:
        """Takes one ["similarity", ...]: KeyError, TypeError or ValueError when it is none."""
        scores = {str(arm): float(score) for arm, score in dict(body["scores"]).items()}
        if any(not 0.0 <= score <= 1.0 for score in scores.values()):
            raise ValueError("a similarity is between 0 and 1")
        self._why = None if body["why"] is None else str(body["why"])
        self._dropped = Counter({str(reason): int(n) for reason, n in dict(body["dropped"]).items()})
        if not scores:
            return
        self._pairs += 1
        at_ns, block = int(body["at_ns"]), body["block"]
        if _CONTROL in scores:
            self._floor.append((at_ns, str(body["id"]), scores[_CONTROL]))
        elif self._windows is not None:
            in_turn = None if block is None else self._blocks_ns + int(block) * self._windows.window_ns
            self._windows.add(at_ns if in_turn is None else in_turn, scores)

    def shown(self, candidate: str, mode: str = LIVE) -> dict[str, Any]:
        """The candidate's, by the metric's name, as all metrics of outputs; nothing where none is asked."""
        if not self._model:
            return {}
        found, why = None, no_score(None, mode)
        if self._windows is not None:
            means = self._windows.means(candidate)
            found = score_interval(means, "share", self._windows.pairs_per_unit(candidate), self._alpha)
            why = no_score(len(means), mode) or why_no_interval(len(means), mode)
        return {NAME: output_shown("share", found, self._spread(), why)}

    def show(self) -> dict[str, Any] | None:
        """JSON-able: the model that is asked, why it gives nothing now (None: it does), pairs and drops."""
        if not self._model:
            return None
        return {
            "model": self._model,
            "why": self._why,
            "pairs": self._pairs,
            "dropped": dict(sorted(self._dropped.items())),
        }

    def _spread(self) -> Spread | None:
        return floor_of(self._floor, self._floor_alpha) if self._floor else None
