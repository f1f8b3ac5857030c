"""How is an experiment whose arms take turns said in a line: how far a replay is, and what did not come?"""

from collections.abc import Mapping
from typing import Any


def progress(slots: Mapping[str, Any] | None) -> str:
    """By what the shadow process last told of its turns; empty where there is nothing to say."""
    if not slots:
        return ""
    said = [*_replay(slots), *(f"{name} did not come: {why}" for name, why in slots["troubles"].items())]
    return "; ".join(said)


def _replay(slots: Mapping[str, Any]) -> list[str]:
    replay = slots["replay"]
    if replay is None:
        return []
    if not replay["turns"]:
        return [] if slots["troubles"] else ["the recording is being read"]
    said = [
        f"replayed {min(slots['turns'], replay['turns'])} of {replay['turns']} blocks",
        f"{replay['sent']} of {replay['sends']} requests sent",
    ]
    if replay["late_ms"] is not None:
        said.append(f"the latest {replay['late_ms']:.0f} ms after its instant")
    if slots["over"]:
        said.append("all is sent")
    elif replay["left_s"] is not None:
        said.append(f"about {_span(replay['left_s'])} left")
    return [", ".join(said)]


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
