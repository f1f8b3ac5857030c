"""How fast is an engine? Learned from the instants of the answers its fleet gave, a little robustly.

The time to a first token is taken as `start_s + prefill_s_per_token * work + attention_s_per_token2 *
square`. `work` is the uncached tokens that waited there when the request was sent, and its own (the work over
elapsed time of vLLM-router's `smetric`, with an intercept lest short prompts look slow); `square` is
n * (L - n / 2) for the n uncached tokens of a prompt of L, what causal attention computes. The time between
tokens is taken as `itl_s + itl_s_per_request * batch`.

The curves are the fleet's, and each engine has a factor on its prefill and one on its decode: most fleets are
of one kind of engine, a curve needs more samples than one engine has, and what looks like a difference of
equal engines would draw traffic to one of them. Slopes are repeated medians and factors medians: as long as
three quarters of the answers tell of the engine, whatever the others say moves little. Prefill is learned
from prompts that met nobody's prompt, as long as there are enough of those; decoding along its lower edge,
for all that comes between makes it slower, and its slope is trusted within bounds only.

Decoding slows prefill and prefill slows decoding. So the figures are what a request meets in this traffic,
which a choice needs, and not the engine's data sheet.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import exp, log, sqrt
from statistics import fmean, median

from msgspec import Struct

from routing import credits
from routing.types import Rates

ENOUGH = 8
"""First tokens, before which nothing is concluded."""
KEPT = 64
"""As many of the last samples count."""
MAX_AGE_S = 300.0
ALIKE_PREFILL, ALIKE_DECODE = 1.25, 1.4
"""Factors below which engines are taken as alike: it is noise more often than not."""
_FASTEST_S, _SLOWEST_S = 1e-7, 0.1  # a prompt token
_LONGEST_ITL_S = 10.0
_BYTES_PER_TOKEN = (0.25, 64.0)
_EXPLAINED = 0.7
_ROUNDS = 3
_HINDERED = 2.0
_LEAST_SLOPE, _MOST_SLOPE = 1 / 64, 1 / 32
_SPREAD = 1.5  # of the outer thirds' medians: else no slope can be told from an intercept
_MOST_POINTS, _PARTNERS = 128, 20


class Sample(Struct, frozen=True, gc=False):
    """One streamed answer. `pending_bytes` and `batch` are what was at the engine when it was sent.

    Tokens are as the engine told at its end, None where it did not. `below` is what it could load from lower
    tiers, as in `Choice`, of which `credited_bytes` are not in `uncached_bytes`; None: nothing is known.
    """

    at_s: float
    first_s: float
    decode_s: float
    prompt_bytes: int
    uncached_bytes: int
    pending_bytes: int
    batch: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    below: tuple[int, int] | None = None
    credited_bytes: int = 0


class Learner:
    """The last answers of one engine."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=KEPT)

    def heard(self, samples: Iterable[Sample]) -> None:
        self._samples.extend(samples)

    def forget(self) -> None:
        """The engine is another now."""
        self._samples.clear()

    def samples(self, now_s: float) -> Sequence[Sample]:
        """Those that are not too old."""
        samples = self._samples
        while samples and samples[0].at_s < now_s - MAX_AGE_S:
            samples.popleft()
        return samples


def learned(engines: Sequence[Sequence[Sample]]) -> list[Rates | None]:
    """The figures of each engine of a fleet, from the samples of each; None where there are too few."""
    heard = [_plain(one) if len(one) >= ENOUGH else () for one in engines]
    every = [one for samples in heard for one in samples]
    if not every:
        return [None] * len(engines)
    fleet = _Fleet(every)
    # Once more, with the engines made alike by the factors that were found.
    fleet.fit(heard, [fleet.factors(samples) for samples in heard])
    found = [fleet.rates(samples) if samples else None for samples in heard]
    for rates, samples in zip(found, engines, strict=True):
        if rates is not None:
            rates.samples = len(samples)
            credits.saved(rates, samples)
    return found


def _plain(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Those for which nothing was loaded, as long as there are enough."""
    plain = [one for one in samples if one.below is None]
    return plain if len(plain) >= ENOUGH else samples


def alike(fleet: Sequence[Rates]) -> Rates:
    """What an engine of the fleet is taken for before it has said enough itself: medians."""
    figures = {name: median(getattr(one, name) for one in fleet) for name in FIGURES}
    found = Rates(min(one.samples for one in fleet), **figures)
    credits.together(fleet, found)
    credits.settle(None, found)
    return found


def settle(rates: Rates, fleet: Rates) -> None:
    """Take an engine's figures as the fleet's unless they differ clearly: equal engines cost the same.

    How long answers are and how many bytes a token has is never one engine's affair.
    """
    for names, most in ((_PREFILL, ALIKE_PREFILL), (_DECODE, ALIKE_DECODE)):
        if all(_are_alike(getattr(rates, name), getattr(fleet, name), most) for name in names):
            for name in names:
                setattr(rates, name, getattr(fleet, name))
    rates.bytes_per_token = fleet.bytes_per_token
    rates.output_tokens = fleet.output_tokens
    credits.settle(rates, fleet)


def pooled(parts: Sequence[Rates]) -> Rates:
    """One engine's figures as several workers learned them, each by as many samples as it has."""
    weights = [one.samples for one in parts]
    total = sum(weights)
    figures = {
        name: sum(getattr(one, name) * weight for one, weight in zip(parts, weights, strict=True)) / total
        for name in FIGURES
    }
    found = Rates(total, **figures)
    credits.together(parts, found)
    return found


FIGURES: tuple[str, ...] = (
    "prefill_s_per_token", "attention_s_per_token2", "start_s", "itl_s", "itl_s_per_request", "output_tokens",
    "bytes_per_token",
)  # fmt: skip
"""The attributes of `Rates` but the samples and the credits; a compiled class has no `__slots__` to ask."""
_PREFILL = ("start_s", "prefill_s_per_token", "attention_s_per_token2")
_DECODE = ("itl_s", "itl_s_per_request")


def _are_alike(mine: float, theirs: float, most: float) -> bool:
    return mine <= theirs * most and theirs <= mine * most


class _Fleet:
    """Curves that hold for all engines of a fleet, but for a factor."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        told = [one for one in samples if one.prompt_tokens]
        per_token = 4.0
        if told:
            per_token = sum(one.prompt_bytes for one in told) / sum(one.prompt_tokens or 0 for one in told)
        self.curves = Rates(len(samples), bytes_per_token=_within(per_token, _BYTES_PER_TOKEN))
        counted = [one for one in samples if one.output_tokens is not None]
        self._counts = 2 * len(counted) >= len(samples)
        # Where nobody counts, an answer as a whole stands for one token.
        self.curves.output_tokens = fmean(one.output_tokens or 0 for one in counted) if self._counts else 1.0
        self.fit([samples], [(1.0, 1.0)])

    def fit(self, engines: Sequence[Sequence[Sample]], factors: Sequence[tuple[float, float]]) -> None:
        """Find the curves, with what each engine took divided by its factors."""
        pairs = list(zip(engines, factors, strict=True))
        firsts = [
            (*self._work(one), one.first_s / factor) for samples, (factor, _) in pairs for one in samples
        ]
        alone = [(own, square, y) for own, pending, square, y in firsts if 4.0 * pending <= own]
        if len(alone) < 2 * ENOUGH:
            alone = [(own + pending, square, y) for own, pending, square, y in firsts]
        works, squares, took = zip(*_unhindered(alone), strict=True)
        curves = self.curves
        curves.start_s, curves.prefill_s_per_token = _prefill(works, took)
        square = 0.0
        for _ in range(_ROUNDS):  # either is found in what the other leaves
            more = _attention(curves, works, squares, took)
            if not more:
                break
            square = more
            rest = [max(0.0, y - square * z) for y, z in zip(took, squares, strict=True)]
            curves.start_s, curves.prefill_s_per_token = _prefill(works, rest)
        curves.attention_s_per_token2 = square
        gaps = [
            (max(1.0, one.batch), gap / factor)  # itself at least
            for samples, (_, factor) in pairs
            for one in samples
            if (gap := self._gap_s(one)) is not None
        ]
        curves.itl_s, curves.itl_s_per_request = _decode(gaps) if gaps else (0.0, 0.0)

    def factors(self, samples: Sequence[Sample]) -> tuple[float, float]:
        """How much longer one engine takes than the curves say: for prefill, for decode."""
        curves = self.curves
        firsts, gaps = [], []
        for one in samples:
            own, pending, square = self._work(one)
            prefill_s = curves.prefill_s_per_token * (own + pending) + curves.attention_s_per_token2 * square
            firsts.append(_logarithm(one.first_s, curves.start_s + prefill_s))
            gap = self._gap_s(one)
            if gap is not None:
                gaps.append(_logarithm(gap, curves.itl_s + curves.itl_s_per_request * one.batch))
        return _factor(firsts, median), _factor(gaps, _lower)

    def rates(self, samples: Sequence[Sample]) -> Rates:
        """One engine's own."""
        curves = self.curves
        prefill, decode = self.factors(samples)
        return Rates(
            len(samples),
            _within(curves.prefill_s_per_token * prefill, (_FASTEST_S, _SLOWEST_S)),
            curves.attention_s_per_token2 * prefill,
            curves.start_s * prefill,
            curves.itl_s * decode,
            curves.itl_s_per_request * decode,
            curves.output_tokens,
            curves.bytes_per_token,
        )

    def _work(self, one: Sample) -> tuple[float, float, float]:
        """Its own uncached tokens, those that waited, and the square."""
        per_token = self.curves.bytes_per_token
        whole = one.prompt_tokens or one.prompt_bytes / per_token
        own = one.uncached_bytes / per_token
        if one.prompt_tokens and one.cached_tokens is not None:
            own = one.prompt_tokens - one.cached_tokens
        own = max(1.0, own)
        return own, one.pending_bytes / per_token, own * max(0.0, whole - own / 2)

    def _gap_s(self, one: Sample) -> float | None:
        if not self._counts:
            return one.decode_s
        tokens = one.output_tokens
        return one.decode_s / (tokens - 1) if tokens is not None and tokens > 1 else None


def _unhindered(points: Sequence[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Work, square and seconds of the answers that did not take `_HINDERED` times as long as three quarters
    of those with more work did: less work takes no longer, so what took longer waited for something else.

    Where only the longest waited nothing is told apart here, and repeated medians bear it.
    """
    longer: list[float] = []
    kept: list[tuple[float, float, float]] = []
    for point in sorted(points, reverse=True):
        took = point[2]
        if len(longer) < ENOUGH or took <= _HINDERED * longer[3 * len(longer) // 4]:
            kept.append(point)
        insort(longer, took)
    return kept


def _prefill(works: Sequence[float], firsts: Sequence[float]) -> tuple[float, float]:
    """start_s and s per token."""
    ratio = _within(median(y / x for x, y in zip(works, firsts, strict=True)), (_FASTEST_S, _SLOWEST_S))
    slope = _slope(works, firsts)
    if slope is None:
        return 0.0, ratio
    slope = _within(slope, (_FASTEST_S, ratio))  # a start below 0 is none
    start = median(y - slope * x for x, y in zip(works, firsts, strict=True))
    return max(0.0, start), slope


def _attention(
    found: Rates, works: Sequence[float], squares: Sequence[float], firsts: Sequence[float]
) -> float:
    """What grows with the square, where that explains clearly more."""
    left = [y - found.start_s - found.prefill_s_per_token * x for x, y in zip(works, firsts, strict=True)]
    slope = _slope(squares, left)
    if slope is None or slope <= 0.0:
        return 0.0
    after = [y - slope * x for x, y in zip(squares, left, strict=True)]
    centre = median(after)
    explained = median(abs(y - centre) for y in after) < _EXPLAINED * median(map(abs, left))
    return slope if explained else 0.0


def _decode(gaps: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """itl_s and what each of the batch adds: along the lower edge, where the least prefill came between."""
    points = sorted(gaps)
    third = max(1, len(points) // 3)
    low, high = points[:third], points[-third:]
    low_x, high_x = median(x for x, _ in low), median(x for x, _ in high)
    slope = 0.0
    if high_x > low_x * _SPREAD:
        slope = max(0.0, (_lower(y for _, y in high) - _lower(y for _, y in low)) / (high_x - low_x))
    level = _lower(y - slope * x for x, y in gaps)
    if level < 0.0:  # all of it grows with the batch
        level, slope = 0.0, _lower(y / max(1.0, x) for x, y in gaps)
    level = min(level, _LONGEST_ITL_S)
    return level, _within(
        slope, (level * _LEAST_SLOPE, max(level * _MOST_SLOPE, slope if not level else 0.0))
    )


def _lower(values: Iterable[float]) -> float:
    """Their lower fifth."""
    ordered = sorted(values)
    return ordered[len(ordered) // 5]


def _logarithm(took: float, expected: float) -> float:
    return log(max(took, 1e-6) / max(expected, 1e-6))


def _factor(logarithms: Sequence[float], centre: Callable[[Sequence[float]], float]) -> float:
    """Their centre, where it is more than what such samples scatter by: else 1."""
    if not logarithms:
        return 1.0
    middle = centre(logarithms)
    scatter = 1.4826 * median(abs(one - middle) for one in logarithms)
    if abs(middle) <= 2.5 * scatter / sqrt(len(logarithms)):
        return 1.0
    return exp(_within(middle, (-5.0, 5.0)))


def _slope(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """The median over the points of the median slope to others (Siegel's repeated median); None where all are
    too close.

    Each is compared with `_PARTNERS` others that are not its neighbours by x. It bears a quarter of answers
    that have nothing to do with the prompt, where Tukey's line through the outer thirds was lost as soon as
    half of one third were such.
    """
    points = sorted(zip(xs, ys, strict=True))
    if len(points) > _MOST_POINTS:  # as good, and this is on the loop that serves
        points = [points[n * len(points) // _MOST_POINTS] for n in range(_MOST_POINTS)]
    number = len(points)
    third = max(1, number // 3)
    low_x, high_x = median(x for x, _ in points[:third]), median(x for x, _ in points[-third:])
    if high_x <= low_x * _SPREAD or high_x <= 0.0:
        return None
    nearest = max(1, number // 8)
    step = max(1, (number - 2 * nearest) // _PARTNERS)
    found: list[float] = []
    for place, (x, y) in enumerate(points):
        slopes = [
            (points[n][1] - y) / (points[n][0] - x)
            for n in range(place + nearest - number, place - nearest + 1, step)
            if points[n][0] != x
        ]
        if slopes:
            found.append(median(slopes))
    return median(found) if found else None


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
