"""How much does each arm carry, beside one engine of production?  Requests in flight, averaged over time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.checks import Check
from analysis.mending import NOT_ASKED, RATE_IS_SET
from analysis.modes import LIVE, REPLAY

MARGIN = 0.05
_FEWEST_S = 20.0  # seconds of it, below which a mean says nothing


@dataclass(slots=True)
class _Integral:
    """Requests in flight, integrated over time: in request-seconds."""

    value: float = 0.0
    seconds: float = 0.0

    def add(self, mean: float, seconds: float) -> None:
        self.value += mean * seconds
        self.seconds += seconds

    @property
    def mean(self) -> float | None:
        return self.value / self.seconds if self.seconds else None


class Loads:
    """What the shadow process tells of the load, slice by slice.

    Control against production by the time-integral of what is in flight, for both run one configuration.  The
    candidates' is shown and not judged: a faster one rightly has less in flight; arms are held against each
    other by what arrives (`checks.Fairness.load`).
    """

    def __init__(self) -> None:
        self._production = _Integral()
        self._beside = _Integral()  # the control, while production was seen
        self._arms: dict[str, _Integral] = {}
        self._rate: float | None = None
        self._is_matched = False

    def add(self, body: Mapping[str, Any]) -> None:
        """Takes one ["load", ...]: KeyError, TypeError or ValueError when it is none."""
        seconds = float(body["span_s"])
        if not seconds > 0:
            raise ValueError(f"a span of load takes time, got {seconds}")
        arms = {str(name): float(mean) for name, mean in dict(body["arms"]).items()}
        production = body["production"]
        self._rate = None if body.get("rate") is None else float(body["rate"])
        self._is_matched = bool(body.get("matched", False))
        for name, mean in arms.items():
            self._arms.setdefault(name, _Integral()).add(mean, seconds)
        if production is not None:
            self._production.add(float(production), seconds)
            self._beside.add(arms.get("control", 0.0), seconds)

    @property
    def share_of_production(self) -> float | None:
        """The control's in-flight by that of one production engine, over the same time; None when unknown."""
        ours, theirs = self._beside.mean, self._production.mean
        if ours is None or not theirs or self._production.seconds < _FEWEST_S:
            return None
        return ours / theirs

    def check(self, mode: str = LIVE) -> Check:
        """The control as loaded as one engine of production, within 5 %.

        It withholds nothing: control and candidates are loaded alike whatever production's load is.
        """
        share = self.share_of_production
        if mode != LIVE:
            why = "a replay does not ask it" if mode == REPLAY else "arms take turns"
            detail = f"not compared with production's load: {why}"
            return Check("production_load", None, detail, remedy=NOT_ASKED)
        remedy = RATE_IS_SET if self._is_matched else None
        if share is None:
            return Check("production_load", None, "production's load is not known yet", remedy=remedy)
        detail = f"the control has {share:.2f} times in flight what one production engine has"
        if abs(share - 1.0) <= MARGIN:
            return Check("production_load", True, detail)
        detail = f"{detail}: figures hold at that load, not at production's"
        return Check("production_load", False, detail, remedy=remedy)

    def show(self) -> dict[str, Any]:
        """JSON-able: means of requests in flight, the share of conversations copied now."""
        return {
            "production": self._production.mean,
            "control_of_production": self.share_of_production,
            "arms": {name: one.mean for name, one in sorted(self._arms.items())},
            "rate": self._rate,
            "matched": self._is_matched,
        }
