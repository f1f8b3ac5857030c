"""How does a diagnosis read?  Heads, rows and lines in plain words, which every form writes its own way."""

from collections.abc import Mapping
from typing import Any, Final

from analysis.report_lines import columns

Json = Mapping[str, Any]
HEADS: Final = ("arm", "limited by", "in", "certainty", "because", "evidence")
_WORDS: Final = {
    "client": "the shadow itself",
    "network": "the network",
    "idle": "nothing: it is idle",
    "kv_capacity": "room in the KV cache",
    "stalled": "its scheduler: a queue beside an idle GPU",
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
    """What is not ruled out, and what to try; arms of which the same is to be said are told together."""
    found: dict[str, list[str]] = {}
    for arm, said in why.items():
        for line in advice(said):
            found.setdefault(line, []).append(arm)
    return [f"{', '.join(arms)}, {line}" for line, arms in found.items()]


def advice(said: Json) -> list[str]:
    """The same of one arm, without its name."""
    found = []
    if said["not_ruled_out"] and not _is_silent(said):
        causes = ", ".join(words(cause) for cause in said["not_ruled_out"])
        lacking = ", ".join(said["lacking"])
        found.append(f"not ruled out: {causes}; for that one would have to record {lacking}")
    begin = "try" if said["strength"] == "measured" else "if that is so, try"
    for one in said["try"]:
        effect = f"{one['effect'][:1].upper()}{one['effect'][1:]}"
        found.append(f"{begin} {one['flag']}: {one['why']}. {effect}.")
    return found


def silent(why: Json) -> list[str]:
    """Why nothing is known of any arm, each reason once; empty where something is known of one."""
    if not all(_is_silent(said) for said in why.values()):
        return []
    found: dict[str, list[str]] = {}
    for arm, said in why.items():
        found.setdefault(said["withheld"], []).append(arm)
    return [f"not known of {', '.join(arms)}: {reason}" for reason, arms in found.items()]


def _is_silent(said: Json) -> bool:
    """Whether its engine tells nothing, and nothing else names what limits it."""
    return said["cause"] is None and said["kind"] is None


def text(why: Json) -> list[str]:
    """All of it for a terminal."""
    if nothing := silent(why):
        return [f"what limits arms: {line}" for line in nothing]
    return [f"why: {tested(why)}", *columns([list(HEADS), *rows(why)]), *lines(why)]


def tested(why: Json) -> str:
    """How far the rules are to be trusted."""
    return next((f"by {said['tested']}" for said in why.values()), "")
