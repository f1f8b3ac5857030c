"""What a worker's brakes look at once a second: production's errors and first tokens, lane and memory."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import Final

from gateway.lane_link import LaneLink
from gateway.outcome import Outcome
from gateway.spec import SamplingSpec
from mirror.brakes import BrakeSpec, LaneBrake, ProductionBrake, Reading, Trip, memory_trip
from mirror.lane import LANE_FULL
from mirror.memory import rss_bytes

Tripped = Callable[[str, Trip], object]

_FAILED: Final = frozenset(
    {
        Outcome.TRUNCATED, Outcome.ERROR_EVENT, Outcome.ENGINE_ERROR, Outcome.CUT, Outcome.TIMEOUT,
        Outcome.REFUSED, Outcome.FULL, Outcome.MALFORMED, Outcome.NO_ENGINE,
    }
)  # fmt: skip
# What clients did or were not let in to do says nothing of production's health.
_COUNTED: Final = _FAILED | {Outcome.COMPLETE, Outcome.CLIENT_ERROR, Outcome.CLIENT_GONE}
_MOST_TTFTS: Final = 64  # of a second: sorting all of a busy second's would be a pause of its own


class Braking:
    """`tripped(experiment, trip)` is called while something is wrong: the supervisor decides what follows."""

    def __init__(
        self, lane: LaneLink, samplings: Sequence[SamplingSpec], lane_bytes: int, tripped: Tripped
    ) -> None:
        self._lane = lane
        self._lane_bytes = lane_bytes
        self._tripped = tripped
        self._brakes: dict[str, tuple[SamplingSpec, ProductionBrake, LaneBrake]] = {}
        self._ended: dict[str, tuple[int, int]] = {}  # by fleet: requests and failures since the start
        self._full: dict[str, int] = {}
        self._ttft_s: dict[str, list[float]] = {}
        self.renew(samplings)

    def renew(self, samplings: Sequence[SamplingSpec]) -> None:
        """Look after these experiments from now on."""
        before, self._brakes = self._brakes, {}
        for spec in samplings:
            known = before.get(spec.experiment)
            if known is None or (known[0].brakes, known[0].fleet) != (spec.brakes, spec.fleet):
                known = spec, ProductionBrake(spec.brakes), LaneBrake(spec.brakes)
            self._brakes[spec.experiment] = known

    @property
    def is_needed(self) -> bool:
        """Whether there is an experiment to look after."""
        return bool(self._brakes)

    def saw(self, fleet: str, ttft_s: Sequence[float]) -> None:
        """The first tokens of the last second; of many, some."""
        self._ttft_s.setdefault(fleet, []).extend(ttft_s[:: max(1, -(-len(ttft_s) // _MOST_TTFTS))])

    def look(self, counts: Mapping[tuple[str, ...], int], fleets: Mapping[str | None, str]) -> None:
        """Look at each experiment.  `counts` are the worker's, `fleets` the fleets' names by model."""
        if not self._brakes:
            return
        now_ns = monotonic_ns()
        readings = self._readings(counts, now_ns)
        held = rss_bytes()
        for name, (spec, production, lane) in self._brakes.items():
            fleet = fleets.get(spec.fleet, "")
            for trip in (
                production.look(readings.get(fleet) or Reading(now_ns, 0, 0)),
                lane.look(self._lane.queued_bytes, self._lane_bytes, self._refused(name)),
                self._memory(spec.brakes, held),
            ):
                if trip is not None:
                    self._tripped(name, trip)
                    break

    def _memory(self, spec: BrakeSpec, held: int) -> Trip | None:
        return None if spec.memory_bytes is None else memory_trip(spec, "a worker", held, None)

    def _refused(self, name: str) -> int:
        """Copies that found no room in the lane since the last look."""
        before = self._full.get(name, 0)
        now = self._full[name] = self._lane.dropped.get((name, LANE_FULL), 0)
        return now - before

    def _readings(self, counts: Mapping[tuple[str, ...], int], now_ns: int) -> dict[str, Reading]:
        ended: dict[str, tuple[int, int]] = {}
        for key, n in counts.items():
            if key[0] == "requests" and key[3] in _COUNTED:
                all_of, failed = ended.get(key[1], (0, 0))
                ended[key[1]] = all_of + n, failed + (n if key[3] in _FAILED else 0)
        before, self._ended = self._ended, ended
        seen, self._ttft_s = self._ttft_s, {}
        return {
            fleet: Reading(
                now_ns,
                all_of - before.get(fleet, (0, 0))[0],
                failed - before.get(fleet, (0, 0))[1],
                seen.get(fleet, ()),
            )
            for fleet, (all_of, failed) in ended.items()
        }
