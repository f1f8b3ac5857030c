"""How often is a percentile's change told where answers stall in bursts, and how often is it missed?"""

from dataclasses import dataclass

import numpy as np

from analysis.stats.bootstrap import quantile_effects
from bench.verdicts.ours import ALPHA
from bench.verdicts.scenes import Floats, Scene, failures, noisy

SHARES = (0.5, 0.95, 0.99)
_RESAMPLES = 150


@dataclass(frozen=True, slots=True)
class Stalls:
    """So many pairs in windows of `window`; of each arm a share of answers stalls, in bursts of this mean
    length.  `rho`: latencies depend on their neighbours', AR(1)."""

    name: str
    pairs: int = 4_000
    burst: int = 1
    stalled: float = 0.0
    window: int = 10
    rho: float = 0.0


STALLS = (
    Stalls("none", pairs=1_000),
    Stalls("none"),
    Stalls("none, AR(1) 0.6", rho=0.6, window=35),
    Stalls("none, AR(1) 0.9", rho=0.9, window=130),
    Stalls("1.2 %, bursts of 10", burst=10, stalled=0.012),
    Stalls("1.2 %, bursts of 10", pairs=16_000, burst=10, stalled=0.012),
    Stalls("6 %, bursts of 10", pairs=16_000, burst=10, stalled=0.06),
    Stalls("2 %, bursts of 3", burst=3, stalled=0.02),
    Stalls("2 %, bursts of 30", burst=30, stalled=0.02),
    Stalls("5 %, bursts of 200", burst=200, stalled=0.05, window=20),
)


def missed(stalls: Stalls, seed: int) -> list[bool | None]:
    """Of each percentile, whether the interval leaves out the truth: that arms are alike; None: not told."""
    rng = np.random.default_rng(seed)
    control, candidate = arms(stalls, rng)
    blocks = np.arange(stalls.pairs) // stalls.window
    found = quantile_effects(control, candidate, blocks, SHARES, ALPHA, resamples=_RESAMPLES)
    return [None if one is None else not one.lower <= 0.0 <= one.upper for one in found]


def arms(stalls: Stalls, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Requests that both arms have, each arm's own noise, and its own stalls: some four times as long."""
    request, *own = noisy(Scene("", rho=stalls.rho), 3, stalls.pairs, rng) * np.array([[0.3], [0.1], [0.1]])
    control, candidate = (np.exp(request + noise + _stalls(stalls, rng)) for noise in own)
    return control, candidate


def _stalls(stalls: Stalls, rng: np.random.Generator) -> Floats:
    if not stalls.stalled:
        return np.zeros(stalls.pairs)
    seed, scene = int(rng.integers(1 << 30)), Scene("independent")
    which = failures(scene, stalls.pairs, seed, (stalls.stalled,), burst=stalls.burst)[0]
    return np.asarray(which * rng.normal(1.5, 0.3, stalls.pairs))
