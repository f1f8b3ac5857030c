"""What do the arms' engines and GPUs do, what does that cost, and what limits them?"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.arm_figures import has_slo
from analysis.columns import Columns, Ints
from analysis.cost.axes import Axis, axes
from analysis.cost.energy import GpuReadings
from analysis.cost.figures import Recorded
from analysis.cost.prices import Prices
from analysis.cost.section import section
from analysis.cost.tally import Tally
from analysis.spec import ExperimentSpec
from analysis.stats.windows import Windows
from analysis.why.diagnosis import Diagnoses
from analysis.why.engines import Reading
from analysis.why.signals import Telemetry

# So that a long experiment is shown as fast as a short one: beyond these windows, half minutes, are joined.
_MOST_UNITS = 4096
_MOST_SPANS = 1024
_LATEST = 40  # spans that are told one by one


class OtherArmsError(ValueError):
    """Two experiments cannot be taken together; the one-line text says why and what would do."""


class Resources:
    """Takes the pairs that are judged, and readings of arms' GPUs and engines, in order of time."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._arms = ("control", *spec.candidates)
        self._tally = Tally(spec)
        self._gpus = GpuReadings()
        self._telemetry = Telemetry()
        self._diagnoses = Diagnoses()
        self._others: list[tuple[Resources, Windows | None]] = []

    def add(self, columns: Columns, windows: Ints) -> None:
        """Takes pairs with the numbers of their windows."""
        self._tally.add(columns, windows)

    def gpus(self, frame: Mapping[str, Any]) -> None:
        """Takes one reading of an arm's GPUs."""
        self._gpus.add(frame)
        self._telemetry.gpus(frame)

    def engine(self, reading: Reading) -> None:
        """Takes one look at an arm's engine."""
        self._telemetry.engine(reading)

    def beside(self, other: "Resources", windows: Windows | None) -> None:
        """Takes what arms of these names did in another experiment, under another load, for the cost's curve.

        OtherArmsError where none is a candidate of both, or where answers are judged by another SLO.
        """
        ours, theirs = self._spec, other._spec
        if not set(ours.candidates) & set(theirs.candidates):
            raise OtherArmsError(
                f"{theirs.name} has no candidate of {ours.name} ({', '.join(ours.candidates)})"
            )
        if (ours.slo_ttft_ms, ours.slo_tpot_ms) != (theirs.slo_ttft_ms, theirs.slo_tpot_ms):
            raise OtherArmsError(
                f"{theirs.name} has another SLO than {ours.name}: give one for both with --slo"
            )
        self._others.append((other, windows))

    def show(self, windows: Windows | None, prices: Prices | None) -> dict[str, Any]:
        """What each arm costs and what limits it, JSON-able."""
        own = self._joined(windows, prices)
        found = axes(own, self._spec.candidates, self._numbers(windows))
        others = tuple(one._joined(theirs, prices) for one, theirs in self._others)
        every = replace(own, more=others)
        return {"cost": section(every, self._spec, found), "why": self._why(windows, _MOST_SPANS, _LATEST)}

    def _joined(self, windows: Windows | None, prices: Prices | None) -> Recorded:
        """What is known, with windows joined until there are few enough."""
        count, join = len(self._numbers(windows)), 1
        while self._spec.mode == "live" and count > _MOST_UNITS * join:
            join *= 2
        return replace(self._recorded(windows, prices), join=join)

    def axes(self, windows: Windows | None, prices: Prices | None) -> list[Axis]:
        """Cost and energy as measures by which candidates are compared with the control, window by window."""
        return axes(self._recorded(windows, prices), self._spec.candidates, self._numbers(windows))

    def why(self, windows: Windows | None) -> dict[str, Any]:
        """What limits each arm, JSON-able, with every half minute."""
        return self._why(windows, None, None)

    def _why(self, windows: Windows | None, most: int | None, latest: int | None) -> dict[str, Any]:
        recorded = self._recorded(windows, None)
        runs = {arm: recorded.runs(arm) for arm in self._arms}
        return self._diagnoses.why(runs, self._telemetry, most, latest)

    def _recorded(self, windows: Windows | None, prices: Prices | None) -> Recorded:
        spec = self._spec
        # Where arms take turns slots have lengths of their own.
        window_ns = None if windows is None or spec.mode != "live" else windows.window_ns
        return Recorded(self._tally, self._gpus, prices, window_ns, has_slo(spec), spec.alpha)

    def _numbers(self, windows: Windows | None) -> Ints:
        return np.array([] if windows is None else windows.numbers(), dtype=np.int64)
