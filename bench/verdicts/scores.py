"""What is said of outputs where nothing differs?  Scores that depend on their neighbours, and the looks."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, log
from statistics import NormalDist

import numpy as np

from analysis.calibration import floor_of, next_look, pairs_per_window, pairs_to_see, tau_of_scores
from analysis.metrics._metric import Unit
from analysis.score_intervals import MOST, cut, prior_of
from analysis.stats.correlation import autocorrelation_time, longest_autocorrelation_time
from analysis.stats.sequence import FEWEST_UNITS, OF_SCORES, asymptotic_bounds
from analysis.verdict import DIVERGENCE_MARGIN, Spread
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


def _either(z: Floats) -> Floats:
    return _below(0.02)(z) - _below(0.02)(-z)


def _nats(z: Floats) -> Floats:
    return cut(np.exp(z - 2.0), "nats")


def _hidden(share: float, far: float) -> Callable[[Floats], Floats]:
    """Small noise, and a few far from it."""
    return lambda z: np.where(z < _NORMAL.inv_cdf(share), far, 0.01 * z)


def _hidden_mean(share: float, far: float) -> float:
    return share * far + 0.01 * _NORMAL.pdf(_NORMAL.inv_cdf(share))


# exact_match; a flag of answers; first_divergence, which decides; length_ratio; kl_k3; refusal; small
# noise that hides a few pairs far from it
KINDS = (
    Kind("same to the letter, 80 %", "share", _below(0.8), 0.8),
    Kind("a flag, 2 %", "share", _below(0.02), 0.02),
    Kind("first divergence", "share", _parts, (_beyond(0.25) - _beyond(2.25)) / 2.0),
    Kind("log length ratio", "ratio", lambda z: 0.2 * z, 0.0),
    Kind("divergence in nats", "nats", _nats, exp(-1.5) * _NORMAL.cdf(1.0) + 1.0 - _NORMAL.cdf(2.0)),
    Kind("a flag of either arm, 2 %", "difference", _either, 0.0),
    Kind("log length ratio, 0.5 % far", "ratio", _hidden(0.005, log(10.0)), _hidden_mean(0.005, log(10.0))),
    Kind("nats, 2 % far", "nats", _hidden(0.02, 1.0), _hidden_mean(0.02, 1.0)),
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


def scored(
    kind: Kind,
    depends: Depends,
    pairs: int,
    seed: int,
    alpha: float = ALPHA,
    decides: Kind = DIVERGENCE,
) -> Said:
    """A candidate that answers as the control answers itself, looked at after every window; how long the
    calibration is goes by `decides`."""
    floor, means, size = _drawn(kind, depends, pairs, seed, decides)
    lower, upper = _bounds(means, kind.unit, size, alpha / 2)
    missed = (lower > kind.truth) | (upper < kind.truth)
    left_floor = (lower > floor.upper) | (upper < floor.lower)
    return Said(
        missed=bool(missed.any()),
        left_floor=bool(left_floor.any()),
        diverges=bool((lower - min(1.0, floor.upper) > DIVERGENCE_MARGIN).any()),
    )


def _drawn(kind: Kind, depends: Depends, pairs: int, seed: int, decides: Kind) -> tuple[Spread, Floats, int]:
    """The floor, window means of a candidate that answers alike, and how many pairs a window holds."""
    rng = np.random.default_rng(seed)
    latency = noisy(Scene("", rho=depends.rho), 1, 5 * ASKED, rng)[0]
    control, candidate = (_latent(depends, 5 * ASKED + pairs, rng) for _ in range(2))
    taken, size = _calibrated(latency, decides.of(control))
    rows = [(at, "", float(score)) for at, score in enumerate(kind.of(control)[:taken])]
    return floor_of(rows, ALPHA / 2), _window_means(kind.of(candidate)[taken:], size), size


def falsely_the_same(mean: float, depends: Depends, pairs: int, seed: int) -> bool:
    """Whether SAME is said at any look of answers of which this share differs from the first letter on, where
    the control's own never do."""
    floor, upper = _few_that_differ("share", mean, depends, pairs, seed)
    return bool((upper - max(0.0, floor.lower) < DIVERGENCE_MARGIN).any())


def falsely_within(unit: Unit, bound: float, depends: Depends, pairs: int, seed: int) -> bool:
    """Whether a mean is said to be within a bound at any look, where it is just beyond: a few pairs score
    the most that counts, all others nothing."""
    _, upper = _few_that_differ(unit, 1.001 * bound / MOST[unit], depends, pairs, seed)
    return bool((upper <= bound).any())


def _few_that_differ(
    unit: Unit, share: float, depends: Depends, pairs: int, seed: int
) -> tuple[Spread, Floats]:
    """The floor of a control that never differs from itself, and the upper ends for a candidate of which this
    share of pairs scores the most that counts."""
    rng = np.random.default_rng(seed)
    latency = noisy(Scene("", rho=depends.rho), 1, 5 * ASKED, rng)[0]
    taken, size = _calibrated(latency, np.zeros(5 * ASKED))
    floor = floor_of([(at, "", 0.0) for at in range(taken)], ALPHA / 2)
    means = _window_means(MOST[unit] * _below(share)(_latent(depends, pairs, rng)), size)
    return floor, _bounds(means, unit, size, ALPHA / 2)[1]


def pairs_until_the_same(pairs: int) -> int | None:
    """After how many pairs SAME is said of answers that never differ; None: not within so many."""
    return pairs_until("share", DIVERGENCE_MARGIN, pairs)


def pairs_until(unit: Unit, bound: float, pairs: int) -> int | None:
    """After how many pairs answers that never differ are surely below a bound; None: not within so many."""
    size = ceil(pairs_per_window(1.0))
    _, upper = _bounds(np.zeros(pairs // size), unit, size, ALPHA / 2)
    at = np.flatnonzero(upper < bound)
    return None if len(at) == 0 else (int(at[0]) + FEWEST_UNITS) * size


def _bounds(means: Floats, unit: Unit, size: int, alpha: float) -> tuple[Floats, Floats]:
    """Both ends from the fifteenth window on, as `analysis.score_intervals` has them."""
    lower, upper = asymptotic_bounds(means, alpha, prior=prior_of(unit, size), groups=OF_SCORES)
    return lower[FEWEST_UNITS - 1 :], upper[FEWEST_UNITS - 1 :]


def _window_means(scores: Floats, size: int) -> Floats:
    return np.asarray(scores[: len(scores) // size * size].reshape(-1, size).mean(axis=1))


def _calibrated(latency: Floats, divergence: Floats) -> tuple[int, int]:
    """How many pairs the calibration takes, and a window holds, as in `analysis.calibration`."""
    taken = ASKED
    while taken < pairs_to_see(
        max(autocorrelation_time(latency[:taken]), tau_of_scores(divergence[:taken])), ASKED
    ):
        taken = next_look(taken, ASKED)
    return taken, ceil(pairs_per_window(longest_autocorrelation_time(latency[:taken])))


def _latent(depends: Depends, pairs: int, rng: np.random.Generator) -> Floats:
    if depends.runs_of == 1:
        return np.asarray(noisy(Scene("", rho=depends.rho), 1, pairs, rng)[0])
    lengths = rng.geometric(1.0 / depends.runs_of, 2 * pairs // depends.runs_of + 20)
    return np.repeat(rng.standard_normal(len(lengths)), lengths)[:pairs]
