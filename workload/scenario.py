"""When do conversations begin?  The scenarios, over made-up traffic or a recording's own conversations."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from random import Random
from typing import Literal

import msgspec

from workload.arrivals import constant, gamma, poisson
from workload.row import Row
from workload.talks import Talk, talks

Scenario = Literal["recorded", "steady", "flood", "endurance", "daily", "flash"]
SCENARIOS: tuple[Scenario, ...] = ("recorded", "steady", "flood", "endurance", "daily", "flash")
_FLASH_TIMES = 10.0
_FLASH_PART = (0.4, 0.5)  # of the time: the crowd is there
_FLOOD_S = 1.0
_NIGHT = 0.25  # of the mean rate, where no day was recorded


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how much and in which way.

    `rate` is conversations a second.  `burstiness` is the squared variation of their gaps, for `recorded`;
    `hours` the shares of a day's hours, for `daily`, in which a day takes `day_s`.
    """

    scenario: Scenario
    seconds: float
    rate: float
    burstiness: float = 1.0
    hours: Sequence[float] | None = None
    day_s: float = 86_400.0

    def __post_init__(self) -> None:
        for name in ("seconds", "rate", "day_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)!r}")


def begins(plan: Plan, rng: Random) -> Iterator[float]:
    """When conversations begin, in seconds from the start.

    recorded: gaps of the recorded variation.  steady: as a metronome.  flood: all that the time would bring
    within its first second.  endurance: Poisson.  daily: Poisson, its rate by the hour.  flash: Poisson, ten
    times as much in the fifth tenth of the time.
    """
    rate, seconds = plan.rate, plan.seconds
    if plan.scenario == "steady":
        return _until(constant(rate), seconds)
    if plan.scenario == "flood":
        n = max(1, round(rate * seconds))
        return iter([_FLOOD_S * at / n for at in range(n)])
    if plan.scenario == "recorded":
        return _until(gamma(rng, rate, 1.0 / max(1e-2, plan.burstiness)), seconds)
    if plan.scenario == "endurance":
        return _until(poisson(rng, rate), seconds)
    if plan.scenario == "flash":
        low, high = (part * seconds for part in _FLASH_PART)
        peak = rate * _FLASH_TIMES
        return _thinned(rng, peak, seconds, lambda at_s: 1.0 if low <= at_s < high else 1 / _FLASH_TIMES)
    hours = plan.hours or [
        (1 - (1 - _NIGHT) * math.cos(2 * math.pi * (hour + 0.5) / 24)) / 24 for hour in range(24)
    ]
    most = max(hours)

    def share(at_s: float) -> float:
        return hours[int(at_s / plan.day_s * 24) % 24] / most

    return _thinned(rng, rate * most * 24, seconds, share)


def rescheduled(rows: Sequence[Row], block_tokens: int, plan: Plan, rng: Random) -> list[Row]:
    """A recording's conversations, begun as the scenario says and as often as it takes.

    Inside a conversation the recorded instants stay.  From the second time on its own blocks have other ids,
    or a cache would know it from the time before; those that several conversations share stay.
    """
    found = talks(rows, block_tokens)
    if not found:
        return []
    owners = Counter(block for talk in found for block in {b for row in talk.rows for b in row.hash_ids})
    made: list[Row] = []
    for number, at_s in zip(count(), begins(plan, rng), strict=False):
        again, which = divmod(number, len(found))
        made += _begun(found[which], at_s * 1e3, again, number, owners)
    made.sort(key=lambda row: row.timestamp)
    return made


def _begun(talk: Talk, at_ms: float, again: int, number: int, owners: Counter[int]) -> Iterator[Row]:
    names: dict[str, str] = {}
    for place, row in enumerate(talk.rows):
        id = f"{number}-{place}"
        if row.id is not None:
            names[row.id] = id
        ids = row.hash_ids
        if again:
            ids = [block if owners[block] > 1 else _other(block, again) for block in ids]
        yield msgspec.structs.replace(
            row,
            timestamp=at_ms + row.timestamp - talk.rows[0].timestamp,
            id=id,
            parent=None if row.parent is None else names.get(row.parent),
            session=f"talk-{number}",
            hash_ids=ids,
        )


def _other(block: int, again: int) -> int:
    return int.from_bytes(blake2b(b"%d %d" % (block, again), digest_size=4).digest(), "big") & 0x7FFF_FFFF


def _until(gaps: Iterator[float], seconds: float) -> Iterator[float]:
    at_s = 0.0
    while at_s < seconds:
        yield at_s
        at_s += next(gaps)


def _thinned(rng: Random, peak: float, seconds: float, share: Callable[[float], float]) -> Iterator[float]:
    """A Poisson process whose rate at `at_s` is `peak * share(at_s)`: one of rate `peak`, thinned."""
    return (at_s for at_s in _until(poisson(rng, peak), seconds) if rng.random() < share(at_s))
