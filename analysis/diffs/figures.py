"""How does one arm's output part from the control's, by token, by length and by finish reason, together?"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.columns import Columns, Floats, added
from analysis.diffs.by_length import NAMES, band_series, series_of
from analysis.diffs.finish_table import FinishTable
from analysis.diffs.hazard import HAZARD, hazard_interval, hazard_series
from analysis.outputs import output_shown
from analysis.score_intervals import score_interval, why_no_interval
from analysis.stats.windows import Windows
from analysis.verdict import Interval, Spread
from analysis.wording import no_score


class DiffFigures:
    """Of the pairs of the control's twin 0 and one other answer; both must have succeeded."""

    def __init__(self, arm: str, twin: int = 0) -> None:
        self._arm, self._twin = arm, twin
        self._compared_tokens = 0.0
        self._pairs: Counter[str] = Counter()  # by band
        self._reasons = FinishTable()

    def add(self, columns: Columns) -> dict[str, Floats]:
        """Takes pairs; gives what they add to the windows."""
        ours, theirs = columns.side("control"), columns.side(self._arm, self._twin)
        compared = columns.scored(self._arm) & ours.present & theirs.present
        self._reasons.add(ours, theirs, compared)
        found = hazard_series(columns, self._arm) | band_series(columns, self._arm)
        found = {name: np.where(compared, values, np.nan) for name, values in found.items()}
        tokens = found[f"compared_tokens {self._arm}"]
        self._compared_tokens = added(self._compared_tokens, tokens[~np.isnan(tokens)])
        for name in NAMES:
            self._pairs[name] += int(np.count_nonzero(~np.isnan(found[f"{series_of(name)} {self._arm}"])))
        return found

    def show(
        self,
        floor: "DiffFigures",
        floors: Mapping[str, Spread],
        windows: Windows | None,
        alpha: float,
        mode: str,
    ) -> dict[str, Any]:
        """JSON-able, each figure beside the control's own, and what is beyond that.

        `floor` has counted the control against itself, `floors` are what its calibration fixed.  Of `alpha`
        half is spent here and half on the floors, as of all outputs.
        """

        def shown(found: Interval | None, units: int | None, own: Spread | None) -> dict[str, Any]:
            why = no_score(units, mode)
            if why is None and units is not None:
                why = why_no_interval(units, mode)
            return output_shown("share", found, own, why)

        hazard, units = None, None
        if windows is not None:
            hazard, units = hazard_interval(windows, self._arm, alpha / 2)
        bands = []
        for name in NAMES:
            if not self._pairs[name] and not floor._pairs[name]:
                continue
            found, of = None, None
            if windows is not None:
                series = f"{series_of(name)} {self._arm}"
                means, held = windows.means(series), windows.pairs_per_unit(series)
                found, of = score_interval(means, "share", held, alpha / 2), len(means)
            said = shown(found, of, floors.get(series_of(name)))
            counts = {"pairs": self._pairs[name], "floor_pairs": floor._pairs[name]}
            bands.append({"tokens": name, **counts, **said})
        return {
            "hazard": {
                "tokens": round(self._compared_tokens),
                "floor_tokens": round(floor._compared_tokens),
                **shown(hazard, units, floors.get(HAZARD)),
            },
            "by_length": bands,
            "finish_reasons": self._reasons.show(floor._reasons),
        }
