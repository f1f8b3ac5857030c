"""What traffic do the simulations draw?  Latencies of a control, and of candidates at a known effect."""

from dataclasses import dataclass
from math import inf, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SPREAD = 0.28  # of the log ratio of one pair
_CONTENT = 0.6  # of log latencies between requests, which both arms of a pair have in common
_FAILING = 0.05
_PRESSURE_DROPS = 0.1  # of the copies, by the lane
_SLOWED = 0.3  # of log latencies, by what presses on the lane, in all arms


@dataclass(frozen=True, slots=True)
class Scene:
    """How pairs come about.

    `rho`: of an arm's noise with its own before, AR(1).  `heavy`: Student's t with three degrees of freedom.
    `drift`: latency rises to twice what it was, its noise with it, and what differs goes from nothing to
    twice the effect.  `missing`: a candidate fails its slowest twentieth.  `silent`: it never answers it,
    and a lane under pressure drops a tenth of the copies, those of the slowest moments, for all arms alike.
    """

    name: str
    rho: float = 0.0
    heavy: bool = False
    drift: bool = False
    missing: bool = False
    silent: bool = False

    @property
    def loses_slowest(self) -> bool:
        """Whether a candidate looks faster to whoever leaves out what did not come."""
        return self.missing or self.silent


SCENES = (
    Scene("independent"),
    Scene("AR(1) 0.6", rho=0.6),
    Scene("AR(1) 0.9", rho=0.9),
    Scene("heavy tails", heavy=True),
    Scene("drift", drift=True),
    Scene("missing", missing=True),
    Scene("silent", silent=True),
)


_PRESSED = Scene("pressure", rho=0.9)


@dataclass(frozen=True, slots=True)
class Run:
    """Latencies in ms of each request (the last axis), failures infinite; `candidates` has a row for each.

    `twin`: the control's answers to the same requests, given once more.  `apart`: its answers to other
    requests of the same moments, as where traffic is split and not copied.  `effect` is the expected log
    ratio of each pair.
    """

    control: Floats
    twin: Floats
    apart: Floats
    candidates: Floats
    effect: Floats


def draw(scene: Scene, pairs: int, seed: int, effect: float = 0.0, candidates: int = 1) -> Run:
    """One experiment.  All candidates have the same requests, and share the one control."""
    rng = np.random.default_rng(seed)
    noise = noisy(scene, 3 + candidates, pairs, rng) * (SPREAD / sqrt(2.0))
    content, other = rng.normal(5.0, _CONTENT, (2, pairs))
    rise, effects = np.zeros(pairs), np.full(pairs, effect)
    if scene.drift:
        passed = np.arange(pairs) / pairs
        noise = noise * (1.0 + passed)
        rise = np.log(2.0) * passed
        effects = 2.0 * effect * passed
    control, twin = (np.exp(content + rise + row) for row in noise[:2])
    apart = np.exp(other + rise + noise[2])
    answered = np.exp(content + rise + noise[3:] + effects)
    if scene.silent:
        pressure = noisy(_PRESSED, 1, pairs, rng)[0]
        taken = pressure <= np.quantile(pressure, 1.0 - _PRESSURE_DROPS)
        control, twin, apart, answered = (
            (row * np.exp(_SLOWED * pressure))[..., taken] for row in (control, twin, apart, answered)
        )
        effects = effects[taken]
    if scene.loses_slowest:
        slow = np.quantile(answered, 1.0 - _FAILING, axis=1, keepdims=True)
        answered = np.where(answered > slow, inf, answered)
    return Run(control, twin, apart, answered, effects)


def failures(
    scene: Scene, pairs: int, seed: int, shares: tuple[float, ...], alike: float = 0.0, burst: int = 1
) -> NDArray[np.bool_]:
    """Which answers fail, of the control and of candidates, each with its share.

    `alike`: the (tetrachoric) correlation of the arms' failures.  They come together where noise does; or, of
    each arm by itself, in bursts whose lengths are geometric, `burst` in the mean.
    """
    rng = np.random.default_rng(seed)
    if burst > 1:
        return np.stack([_bursts(share, burst, pairs, rng) for share in shares])
    noise = noisy(scene, len(shares) + 1, pairs, rng)
    arms = sqrt(alike) * noise[-1] + sqrt(1.0 - alike) * noise[:-1]
    limits = np.array([[NormalDist().inv_cdf(1.0 - share)] for share in shares])
    return np.asarray(arms > limits)


def _bursts(share: float, burst: int, pairs: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Two states that take turns; which one it begins with is drawn by their shares."""
    turns = 2 * pairs // burst + 2  # more than there is room for
    lengths = np.empty(turns, dtype=np.int64)
    begins = int(rng.random() < share)
    lengths[1 - begins :: 2] = rng.geometric(1.0 / burst, len(lengths[1 - begins :: 2]))
    lengths[begins::2] = rng.geometric(share / (burst * (1.0 - share)), len(lengths[begins::2]))
    failing = np.arange(turns) % 2 == 1 - begins
    return np.repeat(failing, lengths)[:pairs]


def noisy(scene: Scene, rows: int, pairs: int, rng: np.random.Generator) -> Floats:
    """Noise with variance one."""
    if scene.heavy:
        return np.asarray(rng.standard_t(3, (rows, pairs)) / sqrt(3.0))
    noise = rng.standard_normal((rows, pairs))
    if scene.rho:
        noise[:, 1:] *= sqrt(1.0 - scene.rho**2)
        back, weight = 1, scene.rho  # 1 / (1 - rho B) = (1 + rho B) (1 + rho^2 B^2) (1 + rho^4 B^4) ...
        while back < pairs and weight > 1e-12:
            noise[:, back:] += weight * noise[:, :-back].copy()
            back, weight = 2 * back, weight * weight
    return noise
