"""What the shadow process's brakes look at, once a second: its arms' answers, and memory."""

from collections.abc import Callable, Iterable

from mirror.brakes import ArmBrake, Trip, memory_trip
from mirror.comparison import Comparison
from mirror.memory import free_share, rss_bytes

Tripped = Callable[[str, Trip], object]


class ShadowBrakes:
    """`tripped(experiment, trip)` is called while something is wrong: the supervisor decides what follows."""

    def __init__(self, tripped: Tripped = lambda _name, _trip: None) -> None:
        self._tripped = tripped
        self._arms: dict[str, ArmBrake] = {}

    def look(self, now_ns: int, comparisons: Iterable[Comparison]) -> None:
        """Look at each experiment; a paused one has no arms to look at, and still memory to wait for."""
        comparisons = list(comparisons)
        if not comparisons:
            return
        held, free = rss_bytes(), free_share()
        for one in comparisons:
            name, spec = one.experiment.name, one.experiment.brakes
            arms = self._arms.get(name)
            if arms is None or arms.spec != spec:
                arms = self._arms[name] = ArmBrake(spec)
            if one.paused:
                arms.forget()
            totals = {arm.spec.name: (arm.answers, arm.failures) for arm in one.engines}
            trip = memory_trip(spec, "the shadow process", held, free)
            if trip is None and not one.paused:
                trip = arms.look(now_ns, totals)
            if trip is not None:
                self._tripped(name, trip)
