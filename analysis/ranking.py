"""What do the records of an experiment say?  `Trial` takes records and gives the ranking."""

from collections.abc import Mapping
from typing import Any, Literal

from analysis.measure import PairRecord
from analysis.spec import ExperimentSpec

Phase = Literal["calibration", "live"]


class Trial:
    """One experiment: records in, ranking out. No clock, no I/O; the same calls give the same ranking.

    The phase changes from calibration to live inside `add` (or by `calibrate`), judged by the records' own instants.
    Live records that come before that, and calibration records after it, are counted but not used.
    """

    def __init__(self, spec: ExperimentSpec, epoch: int = 0) -> None:
        self.spec = spec
        self.epoch = epoch

    @property
    def phase(self) -> Phase:
        """"calibration" until the window length is fixed, then "live"."""
        raise NotImplementedError

    @property
    def calibration(self) -> dict[str, Any] | None:
        """What the calibration fixed (for the log's ["calibrated", ...]), or None while it lasts."""
        raise NotImplementedError

    def add(self, record: PairRecord) -> None:
        """Counts one pair."""
        raise NotImplementedError

    def calibrate(self, calibration: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ends the calibration now, from what was seen, or with what a log's ["calibrated", ...] says."""
        raise NotImplementedError

    def books(self, admitted: int, paired: int, dropped: Mapping[str, int]) -> None:
        """Takes the shadow's cumulative books (the last call counts)."""
        raise NotImplementedError

    def ranking(self) -> dict[str, Any]:
        """The ranking, JSON-able."""
        raise NotImplementedError
