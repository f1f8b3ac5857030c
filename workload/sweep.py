"""How much load does a server bear?  Requests of fixed lengths, ever more, and the most that keeps an SLO.

`concurrency`: so many users, each asking again at once (closed loop: it cannot overload).  `rate`: so many
requests a second (open loop).  `depth`: so many at one instant, which then drain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Literal

import msgspec

from workload.arrivals import instants, poisson
from workload.asks import Ask
from workload.replay import open_loop
from workload.reply import Reply
from workload.results import Results, Slo, results, to_map

Load = Literal["concurrency", "rate", "depth"]
Send = Callable[[Ask, float, Reply | None], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of each prompt, of its answer, and of the beginning that all prompts share."""

    prompt: int
    output: int
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """One load and what came of it.  `held`: at least `share` of all requests kept the SLO."""

    load: float
    found: Results
    held: bool


async def point(
    kind: Load,
    load: float,
    lengths: Lengths,
    send: Send,
    *,
    seconds: float,
    slo: Slo,
    share: float,
    rng: Random,
    clock: Callable[[], float],
    names: "count[int]",
    most_open: int = 4096,
) -> Point:
    """Run one load.  No two requests of a sweep have more in common than `lengths.shared` tokens.

    Where requests come whether or not answers do, more than `most_open` at once are shed.
    """
    if kind == "concurrency":
        sent = await _closed(round(load), lengths, send, seconds, clock, names)
        found = results(sent, slo)
    else:
        at = [0.0] * round(load) if kind == "depth" else list(instants(poisson(rng, load), seconds))
        listed = [_ask(lengths, at_s, next(names)) for at_s in at]
        opened = await open_loop(listed, send, clock=clock, most_open=most_open)
        found = results(opened.results, slo, shed=opened.shed)
    return Point(load, found, found.requests > 0 and found.good_share >= share)


async def _closed(
    users: int,
    lengths: Lengths,
    send: Send,
    seconds: float,
    clock: Callable[[], float],
    names: "count[int]",
) -> list[tuple[Ask, Reply]]:
    """So many users; each asks as long as there is time, and its last answer is waited for."""
    until_s = clock() + seconds
    done: list[tuple[Ask, Reply]] = []

    async def user() -> None:
        while (now_s := clock()) < until_s:
            ask = _ask(lengths, 0.0, next(names))
            got = await send(ask, now_s, None)
            done.append((ask, got))
            if got.failure is not None:
                await asyncio.sleep(0.05)  # a server that refuses at once is not to be hammered

    async with asyncio.TaskGroup() as group:
        for _ in range(users):
            group.create_task(user())
    return done


def largest(points: Sequence[Point]) -> Point | None:
    """The most load that held, with all below it holding, too."""
    best = None
    for one in sorted(points, key=lambda point: point.load):
        if not one.held:
            break
        best = one
    return best


def table(kind: Load, points: Sequence[Point]) -> str:
    """The curve for reading, and below it what failed at which load."""
    lines = [
        f"{kind:>12}{'req/s':>9}{'tok/s':>9}{'TTFT p50':>10}{'p99':>9}{'TPOT p50':>10}{'p99':>9}"
        f"{'E2E p50':>10}{'good':>8}{'failed':>8}"
    ]
    for one in points:
        found = one.found
        failed = sum(found.failures.values()) + found.shed
        lines.append(
            f"{one.load:>12g}{found.request_rate:>9.2f}{found.output_rate or 0:>9.0f}"
            f"{_ms(found.ttft.percentiles.get(50)):>10}{_ms(found.ttft.percentiles.get(99)):>9}"
            f"{_ms(found.tpot.percentiles.get(50)):>10}{_ms(found.tpot.percentiles.get(99)):>9}"
            f"{_ms(found.e2e.percentiles.get(50)):>10}{found.good_share:>8.1%}{failed:>8}"
        )
    lines += [f"failed at {one.load:g}: {one.found.failed}" for one in points if one.found.failures]
    return "\n".join(lines)


def curve(kind: Load, lengths: Lengths, points: Sequence[Point], *, slo: Slo, share: float) -> dict[str, Any]:
    """Plain values for JSON: the curve and its `largest` load, None where not even the least held.

    Rates are per second, latencies in ms, shares from 0 to 1.
    """
    best = largest(points)
    return {
        "kind": kind,
        "prompt_tokens": lengths.prompt,
        "output_tokens": lengths.output,
        "shared_tokens": lengths.shared,
        "slo": msgspec.to_builtins(slo),
        "share": share,
        "largest": None if best is None else best.load,
        "points": [{"load": one.load, "held": one.held, **to_map(one.found)} for one in points],
    }


def is_dead(points: Sequence[Point]) -> bool:
    """Whether nothing is known from these loads, for no request of any ended well."""
    return not any(one.found.ok or one.held for one in points)


def said(kind: Load, points: Sequence[Point], share: float) -> str:
    """The largest load, in a line; that it may not be the most, where all held; or that none was answered."""
    if is_dead(points):
        return f"no request ended well at any {kind}: nothing is known of what the server bears"
    best = largest(points)
    if best is None:
        return f"largest {kind} of which {share:.0%} keep the SLO: none of these"
    more = "; all of these do, more may" if best.load == max(one.load for one in points) else ""
    return (
        f"largest {kind} of which {share:.0%} keep the SLO: {best.load:g} "
        f"({best.found.goodput:.2f} good/s){more}"
    )


def _ask(lengths: Lengths, at_s: float, name: int) -> Ask:
    size = max(1, lengths.shared)
    blocks = (1,) if lengths.shared else ()
    return Ask(at_s, f"sweep-{name}", lengths.prompt, lengths.output, blocks=blocks, block_tokens=size)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
