"""How would the arms look beside production's own answers?  The figure that misleads, and why it does.

An arm that carries a tenth of an engine's load answers faster than that engine, whatever its configuration:
batches are smaller.  So the control, configured as production is, seems faster too, by as much.
"""

from math import exp
from typing import Any

import numpy as np

from analysis.columns import Columns
from analysis.loads import Loads
from analysis.measure import LATENCIES, Latency
from analysis.modes import LIVE, REPLAY
from analysis.verdict import Label

_FEWEST = 20  # pairs
_SEEMS = 0.05  # a control further from production than this, as a share, is told aloud


class Naive:
    """Geometric mean ratios of the arms' latencies to production's on the same requests."""

    def __init__(self) -> None:
        # Of each arm, by latency.  Whole billionths: their sum does not depend on the order of the pairs.
        self._sums: dict[str, list[int]] = {}
        self._pairs: dict[str, list[int]] = {}

    def add(self, columns: Columns) -> None:
        """Takes live pairs; without production's answer one says nothing."""
        shown = columns.production
        for (arm, twin), side in columns.sides.items():
            both = shown.ok & side.ok
            if twin or not both.any():
                continue
            sums = self._sums.setdefault(arm, [0] * len(LATENCIES))
            pairs = self._pairs.setdefault(arm, [0] * len(LATENCIES))
            for at, latency in enumerate(LATENCIES):
                gaps = (side.log_latency(latency) - shown.log_latency(latency))[both]
                known = gaps[np.isfinite(gaps)]
                sums[at] += int(np.rint(known * 1e9).astype(np.int64).sum())
                pairs[at] += len(known)

    def ratio(self, arm: str, latency: Latency) -> float | None:
        """Arm / production; None below 20 pairs."""
        at = LATENCIES.index(latency)
        n = self._pairs[arm][at] if arm in self._pairs else 0
        return exp(self._sums[arm][at] / 1e9 / n) if n >= _FEWEST else None

    def show(self, candidates: dict[str, Label], loads: Loads, mode: str = LIVE) -> dict[str, Any]:
        """JSON-able: every arm's ratios, and in words what they are worth.

        `candidates` are those with the label of their verdict, which is against the control.
        """
        ratios = {
            arm: {latency: self.ratio(arm, latency) for latency in LATENCIES}
            for arm in ("control", *candidates)
        }
        return {"comparable": False, "ratios": ratios, "why": self._why(candidates, loads, mode)}

    def _why(self, candidates: dict[str, Label], loads: Loads, mode: str) -> str:
        reasons = []
        share = loads.share_of_production
        if share is not None:
            reasons.append(f"the control carries {share:.0%} of one of its engines' load")
        per_token: Latency = "itl" if self.ratio("control", "itl") is not None else "e2e"
        control = self.ratio("control", per_token)
        if control is not None and abs(control - 1.0) > _SEEMS:
            seen = ", ".join(
                f"{name} {found - 1.0:+.0%}"
                for name in ("control", *candidates)
                if (found := self.ratio(name, per_token)) is not None
            )
            reasons.append(f"beside it all seem otherwise, its own configuration too: {seen}")
        why = f" ({'; '.join(reasons)})" if reasons else ""
        verdicts = [
            f"{name} against control: {label.lower()}"
            for name, label in candidates.items()
            if label != "UNDECIDED"
        ]
        if mode == REPLAY:  # it answered none of these, at whatever load it had
            return "; ".join(["nothing is said of production", *verdicts])
        return "; ".join([f"not comparable to production{why}", *verdicts])
