"""How loaded is the control beside one production engine, and which share of conversations makes it equal?"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any

from mirror.spec import CONTROL, MOST_TIMES

SLICE_NS = 5_000_000_000
_GAP_NS = 30_000_000_000  # of what happened in so long a silence nothing is counted, on either side
_FIRST_S = 20.0  # nothing is set before so much was seen
_USUAL_S = 600.0  # how far back goes production's mean, in whose measure all else is taken
_LATELY_S = 240.0  # and the two means whose difference keeps the share from swinging
_REPAID_S = 150.0  # what the control owes is made up for at this pace
_LEARNT_S = 1800.0  # and the share that leaves nothing owing is learnt at this one
_MOST_OWED_S = 225.0  # of production's mean: conversations that begin together take long to be all there
_MOST_AT_ONCE = 1.0  # of the share's logarithm
_WIDEST = 4.0  # the share may become so many times what it began with, or one such part of it


@dataclass(slots=True)
class _Worker:
    at_ns: int
    busy_ns: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The requests in flight over a span of time, on average: of one production engine, and of each arm.

    `rate`: how often a conversation is sent, from now on.
    """

    span_s: float
    production: float
    arms: Mapping[str, float]
    rate: float
    matched: bool

    def frame(self) -> dict[str, Any]:
        """What the analysis process is told."""
        return {
            "span_s": self.span_s,
            "production": self.production,
            "arms": dict(self.arms),
            "rate": self.rate,
            "matched": self.matched,
        }


class Matching:
    """Holds one experiment's load against production's; with `auto` it sets the rate so that they are equal.

    The measure is the time-integral of the requests in flight, per engine: workers tell production's,
    cumulated, and `look` is given the arms'.  A rate above 1 sends conversations more than once, at most
    `most` times.

    What is steered to 0 is `owed`, the difference of the two integrals, and not that of two means: so chance,
    of which a few conversations have much, and what went wrong at first are made up for.  With P,
    production's mean over ten minutes, and p and c, production's and the control's over four:

        now = owed / (150 s P) + (p - c) / P, at most 1 either way
        d learnt / dt = (owed / (150 s P), as bounded) / 1800 s
        rate = the first one * exp(learnt + now)

    The second term of `now` and the slow `learnt` keep it steady although what is set shows late, for a
    conversation lasts minutes.  No mean is put into a logarithm: few requests' would lie too low, and the
    control would be loaded too much.
    """

    def __init__(self, rate: float, *, auto: bool, most: float = MOST_TIMES) -> None:
        self.rate = rate = min(rate, most)
        self._first = rate
        self._most = most
        self._auto = auto
        self._workers: dict[int, _Worker] = {}
        self._heard_s: float | None = None  # an engine's busy s of this slice; None: no worker told
        self._since: tuple[int, dict[str, int]] | None = None
        self._looked_ns = 0
        self._doubled = False
        self._seen_s = 0.0
        self._usual = self._production = self._control = 0.0
        self._owed = 0.0  # request-seconds
        self._learnt = 0.0

    def production(self, worker: int, at_ns: int, busy_ns: int, engines: int) -> None:
        """How long one worker's requests were in flight until `at_ns`, together; `engines` share them."""
        before, self._workers[worker] = self._workers.get(worker), _Worker(at_ns, busy_ns)
        if before is None or at_ns <= before.at_ns or busy_ns < before.busy_ns or engines < 1:
            return  # its first word, or it was started again
        if at_ns - before.at_ns <= _GAP_NS:
            self._heard_s = (self._heard_s or 0.0) + (busy_ns - before.busy_ns) / 1e9 / engines

    def pause(self) -> None:
        """What comes until the next look is no part of any mean."""
        self._since = None

    def look(self, now_ns: int, busy_ns: Mapping[str, int], *, doubled: bool = False) -> Slice | None:
        """The slice that ends now, if one does.  `busy_ns`: each arm's integral until now.

        Workers tell at their own seconds, and late when they have much to do: a slice waits for a word, and
        all that is told is counted, in the slice in which it comes.  `doubled`: the control is asked
        everything twice, as a calibration does; its load sets no rate then.
        """
        if self._since is None or doubled != self._doubled or not self._workers:
            self._doubled = doubled
            self._begin(now_ns, busy_ns)
            return None
        since_ns, before = self._since
        looked_ns, self._looked_ns = self._looked_ns, now_ns
        is_silent = self._heard_s is None and now_ns - since_ns > _GAP_NS
        if is_silent or now_ns - looked_ns > _GAP_NS:  # or this process stood still
            self._begin(now_ns, busy_ns)
            return None
        if now_ns - since_ns < SLICE_NS or self._heard_s is None:
            return None
        span_s = (now_ns - since_ns) / 1e9
        arms = {name: (busy - before.get(name, 0)) / 1e9 / span_s for name, busy in busy_ns.items()}
        production = self._heard_s / span_s
        if not doubled:
            self._set(span_s, production, arms.get(CONTROL, 0.0))
        self._begin(now_ns, busy_ns)
        return Slice(span_s, production, arms, self.rate, self._auto)

    def _begin(self, now_ns: int, busy_ns: Mapping[str, int]) -> None:
        self._since, self._looked_ns = (now_ns, dict(busy_ns)), now_ns
        self._heard_s = None

    def _set(self, span_s: float, production: float, control: float) -> None:
        def over(memory_s: float) -> float:
            return min(1.0, span_s / min(memory_s, self._seen_s + span_s))

        self._usual += over(_USUAL_S) * (production - self._usual)
        self._production += over(_LATELY_S) * (production - self._production)
        self._control += over(_LATELY_S) * (control - self._control)
        self._seen_s += span_s
        self._owed = _within(_MOST_OWED_S * self._usual, self._owed + (production - control) * span_s)
        if not self._auto or self._seen_s < _FIRST_S or not self._usual:
            return
        owed = self._owed / (_REPAID_S * self._usual)
        now = _within(_MOST_AT_ONCE, owed + (self._production - self._control) / self._usual)
        learnt = self._learnt + _within(_MOST_AT_ONCE, owed) * span_s / _LEARNT_S
        self._learnt = _within(log(_WIDEST), learnt)
        low, high = self._first / _WIDEST, min(self._most, self._first * _WIDEST)
        self.rate = max(low, min(high, self._first * exp(self._learnt + now)))


def _within(most: float, value: float) -> float:
    """The value, or what is nearest to it of -most to most."""
    return max(-most, min(most, value))
