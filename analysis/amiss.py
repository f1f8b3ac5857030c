"""Are a candidate's answers surely worse than the control's, by a measure that knows good from bad?"""

from collections.abc import Mapping
from typing import Any, Final

from analysis.stats.sequence import FEWEST_UNITS

AMISS_MARGIN = 0.01  # one answer in a hundred more is what matters

# Which way is worse: 1 where more of it is, -1 where less is.  All others tell only what is other.
_WORSE: Final[Mapping[str, int]] = {
    "refusal": 1,
    "loop": 1,
    "garbage": 1,
    "language": -1,
    "json_valid": -1,
    "schema_valid": -1,
    "tools_valid": -1,
}
_ASKED_FOR: Final = frozenset(("json_valid", "schema_valid", "tools_valid"))  # only where a request does


def amiss(outputs: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The measures by which more than one answer in a hundred is surely worse, and by how much, from and to.

    By the whole interval of what is beyond the control's own floor, of 15 windows at least.  A difference
    that the calibration never had to measure has the floor that exchanging two equal engines gives: 0.
    """
    every = {name: _worse_by(name, outputs) for name in _WORSE}
    return {name: ends for name, ends in every.items() if ends is not None and ends[0] > AMISS_MARGIN}


def not_shown(outputs: Mapping[str, Any]) -> dict[str, float | None]:
    """The measures by which more than one answer in a hundred may be worse; the most that may (None: any).

    Of what no request asks for (JSON, a schema, tools) there is nothing to show.  Empty: by all that was
    measured its answers are surely no worse.
    """
    found: dict[str, float | None] = {}
    for name in _WORSE:
        ends = _worse_by(name, outputs)
        is_asked = name not in _ASKED_FOR or (outputs.get(name) or {}).get("value") is not None
        if is_asked and (ends is None or ends[1] > AMISS_MARGIN):
            found[name] = None if ends is None else ends[1]
    return found


def _worse_by(name: str, outputs: Mapping[str, Any]) -> tuple[float, float] | None:
    """How many more answers are worse by this measure, from and to; None where that is not known."""
    said = outputs.get(name)
    if said is None or said["units"] < FEWEST_UNITS:
        return None
    ends = said["excess"] or (said if said["unit"] == "difference" else None)
    if ends is None or ends["lower"] is None or ends["upper"] is None:
        return None
    least, most = sorted((_WORSE[name] * ends["lower"], _WORSE[name] * ends["upper"]))
    return least, min(1.0, most)
