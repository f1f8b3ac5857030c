"""How does a diagnosis read?  Heads, rows and lines in plain words, which every form writes its own way."""

from collections.abc import Mapping
from typing import Any, Final

Json = Mapping[str, Any]
HEADS: Final = ("arm", "limited by", "in", "certainty", "because", "evidence")
_WORDS: Final = {
    "client": "the shadow itself",
    "network": "the network",
    "idle": "nothing: it is idle",
    "kv_capacity": "room in the KV cache",
    "scheduling": "the batch's limit",
    "cpu": "its host's processor",
    "memory_bandwidth": "memory bandwidth",
    "compute": "arithmetic",
    "unknown": "not known",
}
_SIGNALS: Final = {
    "late": ("late looks", "%"),
    "inflight": ("in flight", ""),
    "running": ("running", ""),
    "queued": ("queued", ""),
    "working": ("at work", "%"),
    "pinned": ("behind a full batch", "%"),
    "kv_usage": ("KV cache", "%"),
    "preemptions": ("preemptions each time", ""),
    "step_tokens": ("tokens a step", ""),
    "intensity": ("flops a byte", ""),
    "gpu_busy": ("GPU busy", "%"),
    "memory_busy": ("memory busy", "%"),
    "tensor_busy": ("tensor cores", "%"),
}


def words(cause: str) -> str:
    """A cause in plain words."""
    return _WORDS[cause]


def rows(why: Json) -> list[list[str]]:
    """A row for each arm."""
    return [
        [
            arm,
            "–" if said["cause"] is None else words(said["cause"]),
            _shares(said["shares"], said["cause"]),
            said["strength"] or "–" if said["cause"] is not None else "–",
            "; ".join(said["because"]) if said["cause"] is not None else said["withheld"],
            ", ".join(_signal(name, value) for name, value in said["signals"].items()) or "–",
        ]
        for arm, said in why.items()
    ]


def _shares(shares: Json, cause: str | None) -> str:
    """In how much of the time; where it is no one cause, all of them."""
    if cause is not None:
        return f"{shares[cause]:.0%} of the time"
    return ", ".join(f"{words(one)} {share:.0%}" for one, share in shares.items()) or "–"


def _signal(name: str, value: float) -> str:
    word, unit = _SIGNALS[name]
    return f"{word} {value:.0%}" if unit else f"{word} {value:.3g}"


def lines(why: Json) -> list[str]:
    """What is not ruled out, and what to try, arm by arm."""
    found = []
    for arm, said in why.items():
        if said["not_ruled_out"]:
            causes = ", ".join(words(cause) for cause in said["not_ruled_out"])
            lacking = ", ".join(said["lacking"])
            found.append(f"{arm}, not ruled out: {causes}; for that one would have to record {lacking}")
        begin = "try" if said["strength"] == "measured" else "if that is so, try"
        for one in said["try"]:
            effect = f"{one['effect'][:1].upper()}{one['effect'][1:]}"
            found.append(f"{arm}, {begin} {one['flag']}: {one['why']}. {effect}.")
    return found


def tested(why: Json) -> str:
    """How far the rules are to be trusted."""
    return next((f"by {said['tested']}" for said in why.values()), "")
