"""How do figures of cost read?  Heads, rows and notes in plain words, which every form writes its own way."""

from collections.abc import Mapping
from typing import Any

from analysis.report_lines import change, columns

Json = Mapping[str, Any]
_SLO = {"meets": "meets", "misses": "misses", "unknown": "not certain", None: ""}


def heads(cost: Json) -> list[str]:
    """Of the columns of `rows`."""
    money = cost["currency"] or "price"
    return [
        "arm",
        "GPUs",
        f"{money}/h",
        "load",
        "requests/s",
        "within SLO",
        *(f"{money}/M {kind}" for kind in ("input", "output", "total")),
        "tokens/GPU·s",
        "J/token",
    ]


def rows(cost: Json) -> list[list[str]]:
    """A row for each arm and load, lightest first; * marks the load at which its cost at the SLO is told."""
    found = []
    for arm, said in cost["arms"].items():
        count = said["gpus"]["count"]
        begin = [arm, "–" if count is None else str(count), short(said["per_hour"]["value"])]
        for at, level in enumerate(said["curve"]):
            mark = "*" if at == said["at_slo"] else ""
            found.append([*begin, f"{level['multiplier']:g}x{mark}", *_level(level)])
        if not said["curve"]:
            found.append([*begin, *["–"] * 8])
    return found


def _level(level: Json) -> list[str]:
    slo: Json = level["slo"]
    share = "–" if slo["value"] is None else f"{slo['value']:.1%} {_SLO[slo['state']]}".strip()
    energy = cell(level["joules_per_token"]["total"])
    doubt = "" if level["energy"]["valid"] or energy == "–" else " (invalid)"
    return [
        f"{level['requests_per_s']:.3g}",
        share,
        *(cell(level["per_million"][kind]) for kind in ("input", "output", "total")),
        cell(level["tokens_per_gpu_s"]["total"]),
        f"{energy}{doubt}",
    ]


def cell(said: Json) -> str:
    """A figure with its interval; – where it is withheld."""
    if said["value"] is None:
        return "–"
    if said["lower"] is None:
        return short(said["value"])
    return f"{short(said['value'])} ({short(said['lower'])} … {short(said['upper'])})"


def short(value: float | None) -> str:
    """Three digits; – when unknown."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def summary(cost: Json) -> list[str]:
    """What each arm costs at the SLO, in a sentence; those of which one reason withholds it together."""
    told: list[str] = []
    withheld: dict[str, list[str]] = {}
    for arm, said in cost["arms"].items():
        load: Json = said["max_load"]
        if load["withheld"] is None:
            told.append(f"{arm} {_at_slo(cost, said)}")
        else:
            withheld.setdefault(load["withheld"], []).append(arm)
    return told + [f"{', '.join(arms)}: no cost at the SLO: {why}" for why, arms in withheld.items()]


def _at_slo(cost: Json, said: Json) -> str:
    load: Json = said["max_load"]
    level = said["curve"][said["at_slo"]]
    more = "" if load["below"] is None else f", not {load['below']:.3g}"
    bears = f"bears at least {load['at_least']:.3g} requests/s within the SLO{more}"
    total = level["per_million"]["total"]
    if total["value"] is None:
        return f"{bears}; what that costs is withheld: {total['withheld']}"
    bound = "at most " if load["bound"] == "at most" else "about "
    price = f"{bound}{short(total['value'])} {cost['currency']}"
    at = f"at the {level['requests_per_s']:.3g} requests/s it had ({level['multiplier']:g}x)"
    return f"{bears}: {at} {price} per million tokens, input and output together"


def compared(cost: Json) -> list[str]:
    """By how much the candidates' requests cost more, or less, than the control's."""
    has_slo = any(cost["slo"][key] is not None for _, key in _BOUNDS)
    which = "answered within the SLO" if has_slo else "answered"
    told: dict[str, list[str]] = {}
    for axis in cost["axes"]:
        for name, said in axis["candidates"].items():
            ends = (said["ratio"], said["lower"], said["upper"])
            if None not in ends:
                ratio, lower, upper = (change(end) for end in ends)
                told.setdefault(name, []).append(f"{axis['name']} {ratio} ({lower} … {upper})")
    return [
        f"{name}, against the control, over all of this experiment's load, a request {which}:"
        f" {', '.join(own)}"
        for name, own in told.items()
    ]


def text(cost: Json) -> list[str]:
    """All of it for a terminal; where no figure is known, why."""
    if not is_known(cost):
        return ["cost: no figure is known", *(f"withheld: {note}" for note in notes(cost))]
    return [
        f"cost at the SLO: {slo_words(cost)}",
        *summary(cost),
        *compared(cost),
        *columns([heads(cost), *rows(cost)]),
        *(f"withheld or in doubt: {note}" for note in notes(cost)),
    ]


def is_known(cost: Json) -> bool:
    """Whether there is any figure."""
    levels = [level for arm in cost["arms"].values() for level in arm["curve"]]
    keys = ("tokens_per_gpu_s", "per_million", "joules_per_token")
    return any(
        said["value"] is not None for level in levels for key in keys for said in level[key].values()
    ) or any(level["slo"]["value"] is not None for level in levels)


def slo_words(cost: Json) -> str:
    """The SLO that figures are for."""
    slo: Json = cost["slo"]
    bounds = [f"{name} ≤ {slo[key]:g} ms" for name, key in _BOUNDS if slo[key] is not None]
    over = f", over {cost['experiments']} experiments" if cost["experiments"] > 1 else ""
    if not bounds:
        return f"no SLO is set{over}"
    return f"{' and '.join(bounds)} for {slo['target']:.0%} of answers{over}"


_BOUNDS = (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"))


def notes(cost: Json) -> list[str]:
    """Why figures are withheld or in doubt: each reason once, with the figures and arms of which it holds.

    Where none is known of any arm, what is lacking for all comes first, and nothing of single loads.
    """
    found: dict[str, list[str]] = {}
    for arm, said in cost["arms"].items():
        by_why: dict[str, list[str]] = {}
        for what, why in _reasons(said, with_loads=is_known(cost)):
            by_why.setdefault(why, []).append(what)
        for why, whats in by_why.items():
            found.setdefault(f"{', '.join(dict.fromkeys(whats))}: {why}", []).append(arm)
    return [f"{', '.join(arms)}, {reason}" for reason, arms in found.items()] + [
        f"{axis['name']}, compared between arms: {axis['withheld']}"
        for axis in cost["axes"]
        if axis["withheld"] is not None and is_known(cost)
    ]


def _reasons(said: Json, *, with_loads: bool) -> list[tuple[str, str]]:
    reasons = [("GPUs", said["gpus"]["withheld"]), ("price", said["per_hour"]["withheld"])]
    with_loads = with_loads or all(why is None for _, why in reasons)
    if not said["curve"]:
        reasons.append(
            ("all figures", "nothing is judged yet over two whole units of time: wait for more traffic")
        )
    for level in said["curve"] if with_loads else ():
        reasons += [
            (f"{key.replace('_', ' ')} at {level['multiplier']:g}x", level[key]["total"]["withheld"])
            for key in ("tokens_per_gpu_s", "per_million", "joules_per_token")
            if level[key]["total"]["withheld"] not in {said["gpus"]["withheld"], said["per_hour"]["withheld"]}
        ]
        if level["joules_per_token"]["total"]["value"] is not None:
            reasons.append((f"energy at {level['multiplier']:g}x", level["energy"]["why"]))
    return [(what, why) for what, why in reasons if why is not None]
