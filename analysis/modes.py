"""How is it said how far an experiment is, and what production has to do with it, in each of its modes?"""

from collections.abc import Mapping
from typing import Any

from analysis.stats.sequence import FEWEST_UNITS

LIVE = "live"
REPLAY = "replay"

MORE_RECORDED = "raise replay.rounds, or replay a longer recording"

# What the control is compared with in the calibration, by `Calibration.by`.
AGAINST = {
    "engine": "a second engine of its configuration",
    "twins": "itself, half of the conversations sent twice, the second time with a cache salt",
    "slots": "itself in the candidates' slots",
}

_HOW = {
    "switchback": (
        "Arms take turns. In a slot whole conversations sampled from production are copied to the control,"
        " which runs production's own configuration, and in the next one a candidate gets the same requests"
        " at the same distances; production is only observed."
    ),
    REPLAY: (
        "Arms take turns. In a slot a piece of a recording is sent, at its instants, to the control, which"
        " runs production's own configuration, and in the next one the same piece to a candidate; production"
        " is not asked."
    ),
}


def how(mode: str) -> str:
    """In a sentence or two, how the arms came by their requests."""
    return _HOW.get(
        mode,
        "Whole conversations sampled from production are copied to the control, which runs production's own"
        " configuration, and to every candidate at the same moment and in random order; production is only"
        " observed.",
    )


def units_of(mode: str) -> str:
    """What a verdict is made of: windows of time, or, where arms take turns, blocks of two slots."""
    return "windows" if mode == LIVE else "blocks"


def undecided(mode: str, units: int, progress: float, replay: Mapping[str, Any] | None) -> str:
    """Why a candidate with so many units is not judged yet, and what would change that."""
    missing = max(0, FEWEST_UNITS - units)
    if replay is not None and replay["over"]:
        far = (
            f"{units} of the {FEWEST_UNITS} blocks needed at least"
            if missing
            else f"{progress:.0%} of the way"
        )
        return f"{far}, and all of the replay is sent: {MORE_RECORDED}"
    return f"{missing} more {units_of(mode)} needed at least" if missing else f"{progress:.0%} of the way"


def until_judged(mode: str, replay: Mapping[str, Any] | None, setting: str) -> str:
    """What brings a phase to its end in which nobody is judged; `setting` says how long it was to be."""
    if mode != REPLAY:
        return f"if no more pairs come, send more requests, or begin anew with a smaller {setting}"
    if replay is not None and replay["over"]:
        return f"all of the replay is sent: {MORE_RECORDED}, or begin anew with a smaller {setting}"
    return "the replay goes on"


def replayed(replay: Mapping[str, Any] | None) -> str:
    """How much of a replay is done, in words; empty where nothing is replayed, or it is not known yet."""
    if replay is None:
        return ""
    over = ", all is sent" if replay["over"] else ""
    return f"{replay['turns']} of {replay['of']} blocks replayed{over}"


def production_line(mode: str, beside: str) -> str:
    """What production has to do with the figures; `beside` is what they are worth beside it."""
    if mode == REPLAY:
        return f"production was not asked: what the arms got is a recording; {beside}"
    return f"production is observed only: {beside}"
