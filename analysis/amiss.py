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


def amiss(outputs: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The measures by which more than one answer in a hundred is surely worse, and by how much, from and to.

    By the whole interval of what is beyond the control's own floor, of 15 windows at least.  A difference
    that the calibration never had to measure has the floor that exchanging two equal engines gives: 0.
    """
    found = {}
    for name, worse in _WORSE.items():
        said = outputs.get(name)
        if said is None or said["units"] < FEWEST_UNITS:
            continue
        ends = said["excess"] or (said if said["unit"] == "difference" else None)
        if ends is None:
            continue
        least, most = sorted((worse * ends["lower"], worse * ends["upper"]))
        if least > AMISS_MARGIN:
            found[name] = (least, min(1.0, most))
    return found
