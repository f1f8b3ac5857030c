"""What does loading a token from a lower tier save of computing it?  Learned from first tokens.

Of a prompt of which an engine can load a part, its learned speed says what the first token would take with
that part computed, and what it would take with it held: `computed_s` and `held_s`. Where it comes on the way
from one to the other, `(computed_s - first_s) / (computed_s - held_s)`, is what loading saved: 1 as good as
held, 0 no better than computed, or never loaded. An engine's credit is the median over its answers, weighed
by the seconds at stake.

No credit is given in advance: a fleet's is drawn towards none by as much as `PRIOR` answers that say none
would weigh, an engine's by as many towards its fleet's.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from routing.types import Rates

if TYPE_CHECKING:
    from routing.rates import Sample

PRIOR = 8.0
TIERS = (("host_credit", "host_samples"), ("store_credit", "store_samples"))
"""The attributes of `Rates` for each tier: the credit, and how many answers showed it."""
_LEAST_STAKE = 0.2
"""The share of a first token's time that must be at stake: else noise speaks."""
_MOSTLY = 0.75
"""So much of what can be loaded must be in one tier, for the answer to tell of that one."""


def saved(rates: Rates, samples: "Sequence[Sample]") -> None:
    """Set an engine's credits by its own answers alone, and how many answers those are."""
    found: tuple[list[tuple[float, float]], ...] = ([], [])
    for one in samples:
        if one.below is None:
            continue
        host, store = one.below
        more = host + store
        tier = 0 if host >= _MOSTLY * more else 1
        if more <= 0 or max(host, store) < _MOSTLY * more:
            continue
        here = one.uncached_bytes + one.credited_bytes
        computed_s = _first_s(rates, one, here)
        stake_s = computed_s - _first_s(rates, one, max(0, here - more))
        if stake_s > _LEAST_STAKE * computed_s:
            found[tier].append(((computed_s - one.first_s) / stake_s, stake_s))
    for (credit, count), shares in zip(TIERS, found, strict=True):
        setattr(rates, count, float(len(shares)))
        setattr(rates, credit, min(1.0, max(0.0, _middle(shares))) if shares else 0.0)


def together(parts: Sequence[Rates], into: Rates) -> None:
    """Set the credits that several workers, or engines, found: each by as many answers as it has."""
    for credit, count in TIERS:
        total = sum(getattr(one, count) for one in parts)
        sums = sum(getattr(one, credit) * getattr(one, count) for one in parts)
        setattr(into, count, total)
        setattr(into, credit, sums / total if total else 0.0)


def settle(rates: Rates | None, fleet: Rates) -> None:
    """Draw an engine's credits towards the fleet's, which are drawn already; the fleet's, without `rates`."""
    one = fleet if rates is None else rates
    for credit, count in TIERS:
        prior = 0.0 if rates is None else getattr(fleet, credit)
        number = getattr(one, count)
        setattr(one, credit, (getattr(one, credit) * number + prior * PRIOR) / (number + PRIOR))


def _first_s(rates: Rates, one: "Sample", uncached_bytes: int) -> float:
    per_token = rates.bytes_per_token
    n, whole = max(1.0, uncached_bytes / per_token), one.prompt_bytes / per_token
    square = n * max(0.0, whole - n / 2)
    work = n + one.pending_bytes / per_token
    return rates.start_s + rates.prefill_s_per_token * work + rates.attention_s_per_token2 * square


def _middle(shares: Sequence[tuple[float, float]]) -> float:
    """Their median, each weighing as much as was at stake."""
    ordered = sorted(shares)
    left = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        left -= weight
        if left <= 0:
            return value
    return ordered[-1][0]
