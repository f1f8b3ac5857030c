"""How often do the scored tokens' intervals miss where a few pairs that score much are rare?"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from analysis.score_intervals import MOST, cut, score_interval
from analysis.scored import TOGETHER
from analysis.stats.sequence import FEWEST_UNITS
from analysis.stats.windows import Windows
from analysis.verdict import Interval, interval
from bench.verdicts.ours import ALPHA
from bench.verdicts.scenes import Floats

_FAR_NATS = 5.0
_NOISE_NATS = 0.001


@dataclass(frozen=True, slots=True)
class Rare:
    """One pair in `one_in` scores 5 nats a token, in runs of this mean length; all others next to nothing."""

    name: str
    one_in: int
    runs_of: int = 1


RARE = (
    Rare("1 of 200", 200),
    Rare("1 of 1,000", 1_000),
    Rare("1 of 200, runs of 10", 200, 10),
    Rare("1 of 50, runs of 20", 50, 20),
)
PAIRS = (300, 2_000, 5_000)


def drawn(rare: Rare, pairs: int, rng: np.random.Generator) -> Floats:
    """What a candidate's pairs score beyond the control's own."""
    own = rng.normal(0.0, _NOISE_NATS, pairs) - rng.normal(0.0, _NOISE_NATS, pairs)
    lengths = rng.geometric(1.0 / rare.runs_of, ceil(2 * pairs / rare.runs_of) + 20)
    far = np.repeat(rng.random(len(lengths)) < 1.0 / rare.one_in, lengths)[:pairs]
    return np.asarray(own + _FAR_NATS * far)


def misses(rare: Rare, pairs: int, seed: int) -> tuple[bool, bool]:
    """Whether the mean is missed by an interval of the windows' spread alone, and by ours of what counts."""
    scores = drawn(rare, pairs, np.random.default_rng(seed))
    spread = interval(_windows(scores).means("excess"), ALPHA)
    windows = _windows(cut(scores, "nats"))
    ours = score_interval(windows.means("excess"), "nats", windows.pairs_per_unit("excess"), ALPHA)
    return _missed(spread, _FAR_NATS / rare.one_in), _missed(ours, MOST["nats"] / rare.one_in)


def _windows(scores: Floats) -> Windows:
    """As `ScoredPhase` makes them: a pair's number stands for its instant."""
    windows = Windows(TOGETHER, TOGETHER)
    windows.add_many(np.arange(len(scores)), {"excess": scores}, lambda: None)
    windows.finish()
    return windows


def _missed(found: Interval | None, truth: float) -> bool:
    assert found is not None and found.units >= FEWEST_UNITS
    return not found.lower <= truth <= found.upper
