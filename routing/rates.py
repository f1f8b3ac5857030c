"""How fast is an engine? Learned from the instants of the answers it gave, a little robustly.

The time to a first token is taken as `start_s + prefill_s_per_token * work + attention_s_per_token2 *
square`. `work` is the uncached tokens that waited there when the request was sent, and its own (the work over
elapsed time of vLLM-router's `smetric`, with an intercept lest short prompts look slow); `square` is
n * (L - n / 2) for the n uncached tokens of a prompt of L, what causal attention computes. The time between
tokens is taken as `itl_s + itl_s_per_request * batch`. Lines are Tukey's resistant ones, through the medians
of the outer thirds: one hiccup moves nothing.

What waited counts whole until its first token, also what is half computed, and decoding slows prefill. So the
figures are what a request meets in this traffic, which a choice needs, and not the engine's data sheet.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from msgspec import Struct

from routing.types import Rates

ENOUGH = 8
"""First tokens, before which nothing is concluded."""
KEPT = 64
"""As many of the last samples count."""
MAX_AGE_S = 300.0
ALIKE = 1.25
"""Engines whose rates differ by less than this factor are taken as alike: it is noise more often than not."""
_FASTEST_S, _SLOWEST_S = 1e-7, 0.1  # a prompt token
_LONGEST_ITL_S = 10.0
_BYTES_PER_TOKEN = (0.25, 64.0)
_SPREAD = 1.5  # of the outer thirds' medians: else no slope can be told from an intercept


class Sample(Struct, frozen=True, gc=False):
    """One streamed answer. `pending_bytes` and `batch` are what was at the engine when it was sent.

    Tokens are as the engine told at its end, None where it did not.
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


class Learner:
    """What one engine's answers say."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=KEPT)

    def heard(self, samples: Iterable[Sample]) -> None:
        self._samples.extend(samples)

    def forget(self) -> None:
        """The engine is another now."""
        self._samples.clear()

    def learn(self, now_s: float) -> Rates | None:
        """The figures, from the samples that are not too old; None where there are too few."""
        samples = self._samples
        while samples and samples[0].at_s < now_s - MAX_AGE_S:
            samples.popleft()
        return learned(samples) if len(samples) >= ENOUGH else None


def learned(samples: Sequence[Sample]) -> Rates:
    """The figures that these samples speak for."""
    told = [one for one in samples if one.prompt_tokens]
    found = Rates(len(samples))
    if told:
        per_token = sum(one.prompt_bytes for one in told) / sum(one.prompt_tokens or 0 for one in told)
        found.bytes_per_token = _within(per_token, _BYTES_PER_TOKEN)
    per_token = found.bytes_per_token
    works, squares, firsts = list[float](), list[float](), list[float]()
    for one in samples:
        whole = one.prompt_tokens or one.prompt_bytes / per_token
        uncached = one.uncached_bytes / per_token
        if one.prompt_tokens and one.cached_tokens is not None:
            uncached = max(1, one.prompt_tokens - one.cached_tokens)
        if uncached <= 1.0:
            continue  # as good as all of it was held, or handed over: it says nothing of computing prompts
        firsts.append(one.first_s)
        works.append(max(1.0, one.pending_bytes / per_token + uncached))
        squares.append(uncached * (whole - uncached / 2))
    if works:
        found.start_s, found.prefill_s_per_token = _prefill(works, firsts)
        found.attention_s_per_token2 = _attention(found, works, squares, firsts)
    _learn_decode(found, samples)
    return found


def alike(fleet: Sequence[Rates]) -> Rates:
    """What an engine of the fleet is taken for before it has said enough itself: medians."""
    figures = {name: median(getattr(one, name) for one in fleet) for name in _FIGURES}
    return Rates(min(one.samples for one in fleet), **figures)


def settle(rates: Rates, fleet: Rates) -> None:
    """Take an engine's figures as the fleet's unless they differ clearly: equal engines cost the same."""
    for name in _FIGURES:
        mine, theirs = getattr(rates, name), getattr(fleet, name)
        if mine <= theirs * ALIKE and theirs <= mine * ALIKE:
            setattr(rates, name, theirs)
    rates.bytes_per_token = fleet.bytes_per_token  # one model, one tokenizer
    rates.output_tokens = fleet.output_tokens  # who answers does not decide how long the answer is


def pooled(parts: Sequence[Rates]) -> Rates:
    """One engine's figures as several workers learned them, each by as many samples as it has."""
    weights = [one.samples for one in parts]
    total = sum(weights)
    figures = {
        name: sum(getattr(one, name) * weight for one, weight in zip(parts, weights, strict=True)) / total
        for name in _FIGURES
    }
    return Rates(total, **figures)


FIGURES = (
    "prefill_s_per_token", "attention_s_per_token2", "start_s", "itl_s", "itl_s_per_request", "output_tokens",
    "bytes_per_token",
)  # fmt: skip
"""The attributes of `Rates` but the samples behind them; a compiled class has no `__slots__` to ask."""
_FIGURES = FIGURES


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
    explained = median(abs(y - centre) for y in after) < 0.8 * median(map(abs, left))
    return slope if explained else 0.0


def _learn_decode(found: Rates, samples: Sequence[Sample]) -> None:
    told = [one for one in samples if one.output_tokens is not None]
    if 2 * len(told) >= len(samples):
        found.output_tokens = fmean(one.output_tokens or 0 for one in told)
        counted = [one for one in told if (one.output_tokens or 0) > 1]
        gaps = [one.decode_s / ((one.output_tokens or 2) - 1) for one in counted]
    else:  # nobody counts: an answer as a whole stands for one token
        found.output_tokens = 1.0
        counted, gaps = list(samples), [one.decode_s for one in samples]
    if not gaps:
        return
    batches = [one.batch for one in counted]
    slope = _slope(batches, gaps)
    slope = max(0.0, slope) if slope is not None else 0.0
    level = median(y - slope * x for x, y in zip(batches, gaps, strict=True))
    if level < 0.0:  # all of it grows with the batch
        level, slope = 0.0, median(y / max(1.0, x) for x, y in zip(batches, gaps, strict=True))
    found.itl_s, found.itl_s_per_request = min(level, _LONGEST_ITL_S), min(slope, _LONGEST_ITL_S)


def _slope(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Tukey's: between the medians of the outer thirds by x; None where those are too close."""
    points = sorted(zip(xs, ys, strict=True))
    third = max(1, len(points) // 3)
    low, high = points[:third], points[-third:]
    low_x, high_x = median(x for x, _ in low), median(x for x, _ in high)
    if high_x <= low_x * _SPREAD or high_x <= 0.0:
        return None
    return (median(y for _, y in high) - median(y for _, y in low)) / (high_x - low_x)


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
