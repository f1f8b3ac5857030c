"""What did a run of requests come to?  The figures of the trade, and of how many there are none."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from workload.asks import Ask, block_hits
from workload.reply import Reply

_SHARES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Slo:
    """Bounds in ms that a good request keeps, each None where it is not asked for."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    def met(self, reply: Reply) -> bool:
        """Whether it ended well within all bounds.  Missing is missed, but a TPOT of one token.

        An answer that is no tokens has no first one, and no time for each: only E2E bounds it.
        """
        if reply.failure is not None:
            return False
        if not reply.in_tokens:
            return self.e2e_ms is None or (reply.e2e_s is not None and reply.e2e_s * 1e3 <= self.e2e_ms)
        bounds = ((self.ttft_ms, reply.ttft_s), (self.e2e_ms, reply.e2e_s))
        if any(bound is not None and (took is None or took * 1e3 > bound) for bound, took in bounds):
            return False
        if self.tpot_ms is None:
            return True
        if reply.tpot_s is None:
            return (reply.tokens or 0) == 1
        return reply.tpot_s * 1e3 <= self.tpot_ms


@dataclass(frozen=True, slots=True)
class Spread:
    """One measure over all requests that have it, in ms.  `missing` are good requests that have none."""

    n: int
    missing: int
    mean: float | None
    percentiles: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Results:
    """A whole run.  `goodput` is in good requests a second, `good_share` of all that were to be sent.

    `left_out` are those that cannot be sent, by one of `REASONS` and path; they are not among `requests`.
    `words` are what the server said to the first of each failure, where it said anything.
    """

    requests: int
    ok: int
    failures: Mapping[str, int]
    shed: int
    seconds: float
    ttft: Spread
    itl: Spread
    tpot: Spread
    e2e: Spread
    lag: Spread
    request_rate: float
    output_rate: float | None
    goodput: float
    good_share: float
    prompt_tokens: int | None
    asked_prompt_tokens: int
    output_tokens: int | None
    asked_output_tokens: int
    hit_rate: float | None
    recorded_hit_rate: float | None
    block_hit_rate: float | None
    left_out: Mapping[str, Mapping[str, int]]
    words: Mapping[str, str]

    @property
    def failed(self) -> str:
        """How many failed of what, in a line, with the server's words for the commonest; "" if none did."""
        ordered = sorted(self.failures.items(), key=lambda one: (-one[1], one[0]))
        line = ", ".join(f"{n} {why}" for why, n in ordered)
        said = self.words.get(ordered[0][0]) if ordered else None
        return f"{line} (the server: {said})" if said else line


REASONS: Final = {
    "no_text": "no text was recorded, and none can be made up",
    "not_served": "the server has no such path",
}


def results(
    sent: Sequence[tuple[Ask, Reply]],
    slo: Slo,
    *,
    shed: int = 0,
    left_out: Mapping[str, Mapping[str, int]] | None = None,
) -> Results:
    """The figures of these requests.  Token counts are the server's, None where it told none."""
    asks, replies = [ask for ask, _ in sent], [one for _, one in sent]
    good = [one for one in replies if one.failure is None]
    told_in_tokens = [one for one in good if one.in_tokens]
    began = min((one.scheduled_s for one in replies), default=0.0)
    seconds = max((one.ended_s for one in replies), default=began) - began
    met = sum(slo.met(one) for one in replies)
    output = sum(one.tokens for one in good if one.tokens is not None)
    told = [(ask, one) for ask, one in sent if one.prompt_tokens is not None and one.failure is None]
    prompt = sum(one.prompt_tokens or 0 for _, one in told)
    cached = [one.cached_tokens for _, one in told if one.cached_tokens is not None]
    before = [ask for ask in asks if ask.cached_tokens is not None]
    return Results(
        requests=len(sent) + shed,
        ok=len(good),
        failures=dict(Counter(one.failure for one in replies if one.failure is not None)),
        shed=shed,
        seconds=seconds,
        ttft=_spread([one.ttft_s for one in told_in_tokens]),
        itl=_spread([gap for one in good for gap in one.gaps_s]),
        tpot=_spread([one.tpot_s for one in told_in_tokens]),
        e2e=_spread([one.e2e_s for one in good]),
        lag=_spread([one.lag_s for one in replies]),
        request_rate=len(good) / seconds if seconds else 0.0,
        output_rate=output / seconds if seconds and output else None,
        goodput=met / seconds if seconds else 0.0,
        good_share=met / (len(sent) + shed) if sent or shed else 0.0,
        prompt_tokens=prompt if told else None,
        asked_prompt_tokens=sum(ask.prompt_tokens for ask, _ in told),
        output_tokens=output if any(one.tokens is not None for one in good) else None,
        asked_output_tokens=sum(ask.output_tokens for ask, one in sent if one.failure is None),
        hit_rate=sum(cached) / prompt if cached and prompt else None,
        recorded_hit_rate=(
            sum(ask.cached_tokens or 0 for ask in before) / sum(ask.prompt_tokens for ask in before)
            if before
            else None
        ),
        block_hit_rate=block_hits(sorted(asks, key=lambda ask: ask.at_s)),
        left_out=dict(left_out or {}),
        words={one.failure: one.words for one in reversed(replies) if one.failure and one.words},
    )


def _spread(values: Iterable[float | None]) -> Spread:
    listed = list(values)
    known = sorted(value * 1e3 for value in listed if value is not None)
    n = len(known)
    return Spread(
        n=n,
        missing=len(listed) - n,
        mean=sum(known) / n if n else None,
        percentiles={share: known[min(n - 1, int(share / 100 * n))] for share in _SHARES} if n else {},
    )


def table(found: Results, slo: Slo) -> str:
    """The figures for reading."""
    lines = [
        f"requests      {found.ok} of {found.requests} ended well in {found.seconds:.1f} s"
        + (f"; failed: {found.failed}" if found.failures else "")
        + (f"; shed: {found.shed}" if found.shed else ""),
        f"throughput    {found.request_rate:.2f} requests/s"
        + (f", {found.output_rate:.0f} output tokens/s" if found.output_rate is not None else ""),
        "",
        f"{'ms':<14}{'n':>8}{'mean':>10}" + "".join(f"{f'p{share}':>10}" for share in _SHARES),
    ]
    for reason, paths in sorted(found.left_out.items()):
        if paths:
            counted = ", ".join(f"{n} of {path}" for path, n in sorted(paths.items()))
            lines.insert(1, f"left out      {counted}: {REASONS[reason]}")
    for name, spread in (
        ("TTFT", found.ttft),
        ("ITL", found.itl),
        ("TPOT", found.tpot),
        ("E2E", found.e2e),
        ("schedule lag", found.lag),
    ):
        lines.append(f"{name:<14}{spread.n:>8}{_ms(spread.mean)}" + _percentiles(spread))
    bounds = [
        f"{name} {bound:g} ms"
        for name, bound in (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2E", slo.e2e_ms))
        if bound is not None
    ]
    lines.append("")
    if bounds:
        within = f"at {', '.join(bounds)}"
        lines.append(f"goodput       {found.goodput:.2f} requests/s, {found.good_share:.1%} {within}")
    if found.prompt_tokens is not None:
        lines.append(
            f"prompt        {found.prompt_tokens} tokens by the server, {found.asked_prompt_tokens} asked"
        )
    if found.output_tokens is not None:
        lines.append(f"output        {found.output_tokens} tokens, {found.asked_output_tokens} recorded")
    lines.append(
        f"prefix cache  {_share(found.hit_rate)} of prompt tokens hit; "
        f"recorded {_share(found.recorded_hit_rate)}; endless cache {_share(found.block_hit_rate)}"
    )
    return "\n".join(lines)


def to_map(found: Results) -> dict[str, Any]:
    """Plain values for JSON, milliseconds and shares as they are."""
    plain: dict[str, Any] = msgspec.to_builtins(found, str_keys=True)
    return plain


def _percentiles(spread: Spread) -> str:
    return "".join(_ms(spread.percentiles.get(share)) for share in _SHARES)


def _ms(value: float | None) -> str:
    return f"{'-':>10}" if value is None else f"{value:>10.2f}"


def _share(value: float | None) -> str:
    return "not told" if value is None else f"{value:.1%}"
