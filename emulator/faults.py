"""Which requests go wrong, and how: drawn once per request from the engine's own random numbers."""

from enum import StrEnum
from random import Random

from emulator.params import EngineParams


class Fault(StrEnum):
    """How a request goes wrong."""

    ERROR = "error"  # an error event (or a 500) at some token
    REFUSE = "refuse"  # as if the queue were full
    CUT = "cut"  # the connection breaks at some token
    HANG = "hang"  # nothing ever comes


class Faults:
    """Draws a fault, or none, for each request."""

    def __init__(self, params: EngineParams, rng: Random) -> None:
        self._rates = (
            (Fault.REFUSE, params.refuse_rate),
            (Fault.HANG, params.hang_rate),
            (Fault.ERROR, params.error_rate),
            (Fault.CUT, params.cut_rate),
        )
        self._any = any(rate > 0 for _, rate in self._rates)
        self._rng = rng

    def draw(self) -> Fault | None:
        """The next request's fault."""
        if self._any:
            for fault, rate in self._rates:
                if rate > 0 and self._rng.random() < rate:
                    return fault
        return None

    def position(self, tokens: int) -> int:
        """After how many of `tokens` an ERROR or CUT strikes: 0 .. tokens - 1."""
        return self._rng.randrange(tokens)
