"""How would the arms look beside production's own answers?  The figure that misleads, and why it does.

An arm that carries a tenth of an engine's load answers faster than that engine, whatever its configuration:
batches are smaller.  So the control, configured as production is, seems faster too, by as much.
"""

from math import exp
from typing import Any

from analysis.loads import Loads
from analysis.measure import LATENCIES, Latency, PairRecord
from analysis.stats.contrast import contrast
from analysis.verdict import Label

_FEWEST = 20  # pairs
_SEEMS = 0.05  # a control further from production than this, as a share, is told aloud


class Naive:
    """Geometric mean ratios of the arms' latencies to production's on the same requests."""

    def __init__(self) -> None:
        # Whole billionths: their sum does not depend on the order in which pairs came.
        self._sums: dict[tuple[str, Latency], int] = {}
        self._pairs: dict[tuple[str, Latency], int] = {}

    def add(self, record: PairRecord) -> None:
        """Takes one live pair; without production's answer it says nothing."""
        shown = record.production
        if shown is None or shown.fault is not None:
            return
        for answer in record.answers:
            if answer.twin or answer.fault is not None:
                continue
            for latency in LATENCIES:
                d = contrast(shown.latency_ms(latency), answer.latency_ms(latency), None, None)
                if d is not None:
                    key = answer.arm, latency
                    self._sums[key] = self._sums.get(key, 0) + round(d * 1e9)
                    self._pairs[key] = self._pairs.get(key, 0) + 1

    def ratio(self, arm: str, latency: Latency) -> float | None:
        """Arm / production; None below 20 pairs."""
        n = self._pairs.get((arm, latency), 0)
        return exp(self._sums[arm, latency] / 1e9 / n) if n >= _FEWEST else None

    def show(self, candidates: dict[str, Label], loads: Loads) -> dict[str, Any]:
        """JSON-able: every arm's ratios, and in words what they are worth.

        `candidates` are those with the label of their verdict, which is against the control.
        """
        ratios = {
            arm: {latency: self.ratio(arm, latency) for latency in LATENCIES}
            for arm in ("control", *candidates)
        }
        return {"comparable": False, "ratios": ratios, "why": self._why(candidates, loads)}

    def _why(self, candidates: dict[str, Label], loads: Loads) -> str:
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
        return "; ".join([f"not comparable to production{why}", *verdicts])
