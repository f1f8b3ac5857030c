"""What is said of outputs where nothing differs?  Scores that depend on their neighbours, and the looks."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from analysis.calibration import floor_of, next_look, pairs_per_window, pairs_to_see
from analysis.metrics._metric import Unit
from analysis.stats.correlation import autocorrelation_time, longest_autocorrelation_time
from analysis.stats.sequence import FEWEST_UNITS, asymptotic_bounds
from analysis.verdict import DIVERGENCE_MARGIN
from bench.verdicts.ours import ALPHA, ASKED
from bench.verdicts.scenes import Floats, Scene, noisy

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Kind:
    """A score of a pair, made from a standard normal; `truth` is its mean."""

    name: str
    unit: Unit
    of: Callable[[Floats], Floats]
    truth: float


def _below(share: float) -> Callable[[Floats], Floats]:
    return lambda z: (z < _NORMAL.inv_cdf(share)).astype(np.float64)


def _beyond(limit: float) -> float:
    """E max(0, z - limit)."""
    return _NORMAL.pdf(limit) - limit * (1.0 - _NORMAL.cdf(limit))


def _parts(z: Floats) -> Floats:
    return np.clip((z - 0.25) / 2.0, 0.0, 1.0)


# exact_match; a flag, as of refusals; first_divergence, which decides; length_ratio; kl_k3
KINDS = (
    Kind("same to the letter, 80 %", "share", _below(0.8), 0.8),
    Kind("a flag, 2 %", "share", _below(0.02), 0.02),
    Kind("first divergence", "share", _parts, (_beyond(0.25) - _beyond(2.25)) / 2.0),
    Kind("log length ratio", "ratio", lambda z: 0.2 * z, 0.0),
    Kind("divergence in nats", "nats", lambda z: np.exp(z - 2.0), exp(-1.5)),
)
DIVERGENCE = KINDS[2]


@dataclass(frozen=True, slots=True)
class Depends:
    """How scores depend on their neighbours': AR(1) as latencies do, or the same in runs of this mean length,
    while latencies are independent."""

    name: str
    rho: float = 0.0
    runs_of: int = 1


DEPENDENCES = (
    Depends("independent"),
    Depends("AR(1) 0.6", rho=0.6),
    Depends("AR(1) 0.9", rho=0.9),
    Depends("in runs of 3", runs_of=3),
    Depends("in runs of 10", runs_of=10),
)


@dataclass(frozen=True, slots=True)
class Said:
    """Of one run: whether, at any look, the truth was missed, the floor surely left, and DIVERGES said."""

    missed: bool
    left_floor: bool
    diverges: bool


def scored(kind: Kind, depends: Depends, pairs: int, seed: int, alpha: float = ALPHA) -> Said:
    """A candidate that answers as the control answers itself, looked at after every window."""
    rng = np.random.default_rng(seed)
    latency = noisy(Scene("", rho=depends.rho), 1, 5 * ASKED, rng)[0]
    control, candidate = (_latent(depends, 5 * ASKED + pairs, rng) for _ in range(2))
    taken, size = _calibrated([latency])
    rows = [(at, "", float(score)) for at, score in enumerate(kind.of(control)[:taken])]
    floor = floor_of(rows, ALPHA / 2)
    live = kind.of(candidate)[taken:]
    means = live[: len(live) // size * size].reshape(-1, size).mean(axis=1)
    share = alpha / 2 if kind is DIVERGENCE else alpha  # this and the prior as in `analysis.outputs`
    prior = 1.0 / size**2 if kind.unit == "share" else 0.0
    lower, upper = (ends[FEWEST_UNITS - 1 :] for ends in asymptotic_bounds(means, share, prior=prior))
    return Said(
        missed=bool(((lower > kind.truth) | (upper < kind.truth)).any()),
        left_floor=bool(((lower > floor.upper) | (upper < floor.lower)).any()),
        diverges=bool((lower - min(1.0, floor.upper) > DIVERGENCE_MARGIN).any()),
    )


def _calibrated(series: list[Floats]) -> tuple[int, int]:
    """How many pairs the calibration takes, and a window holds, as in `analysis.calibration`."""

    def longest(time: Callable[[NDArray[np.float64]], float], pairs: int) -> float:
        return max(time(one[:pairs]) for one in series)

    taken = ASKED
    while taken < pairs_to_see(longest(autocorrelation_time, taken), ASKED):
        taken = next_look(taken, ASKED)
    return taken, ceil(pairs_per_window(longest(longest_autocorrelation_time, taken)))


def _latent(depends: Depends, pairs: int, rng: np.random.Generator) -> Floats:
    if depends.runs_of == 1:
        return np.asarray(noisy(Scene("", rho=depends.rho), 1, pairs, rng)[0])
    lengths = rng.geometric(1.0 / depends.runs_of, 2 * pairs // depends.runs_of + 20)
    return np.repeat(rng.standard_normal(len(lengths)), lengths)[:pairs]
