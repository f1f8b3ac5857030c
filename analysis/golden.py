"""Was a golden request answered right, by each arm?  Takes the pair as it came; gives marks and no text."""

from collections.abc import Mapping
from typing import Any

import msgspec

from analysis.checkers._choose import checker_of
from analysis.measure import transcript_of

_FOREIGN = ("cancelled",)  # what the shadow itself ended says nothing of an arm


def is_golden(frame: Mapping[str, Any]) -> bool:
    """Whether a pair is of a golden request, and is to be checked."""
    return frame.get("golden") is not None


def checked(frame: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a ["golden", ...] record: the request's id, its pair's, and for each arm whether it passed.

    An arm that fails to answer has not passed; where a checker cannot tell, or the shadow gave the answer up,
    it is None. Takes as long as the check does. KeyError, TypeError or ValueError where the frame is none.
    """
    golden = frame["golden"]
    checker = checker_of(msgspec.json.decode(golden["check"]))
    passed: dict[str, bool | None] = {}
    for answer in frame["answers"]:
        transcript = transcript_of(answer, frame["path"], frame["received_ns"])
        if transcript.fault in _FOREIGN:
            passed[answer["arm"]] = None
        elif transcript.fault is not None:
            passed[answer["arm"]] = False
        else:
            choices = transcript.content.choices
            passed[answer["arm"]] = checker.passes(choices[0].text if choices else "")
    return {"id": str(golden["id"]), "pair": str(frame["id"]), "passed": passed}
