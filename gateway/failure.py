"""What a client is told when no engine's answer came of its request, or not the whole of it."""

from typing import Final

from gateway.fleet import Fleet
from wire.exchange import Ending

_STATUS: Final = {Ending.TIMEOUT: 504, Ending.SHUTDOWN: 503, Ending.FULL: 503}
_WHY: Final = {
    Ending.SHUTDOWN: "the gateway stopped, or stopped using this engine, before the answer was whole",
    Ending.FULL: "the gateway has no connection towards the engine to spare; try again in a moment",
}


def failure(ending: Ending, fleet: Fleet | None) -> tuple[int, str, str]:
    """Status, type and reason for an exchange that ended so; `fleet` is the one that was asked."""
    if ending is Ending.REFUSED and fleet is not None and not fleet.is_up:
        return 503, "service_unavailable", f"no engine of {fleet.name} is available"
    why = _WHY.get(ending) or f"the engine's answer ended early ({ending.value})"
    return _STATUS.get(ending, 502), f"upstream_{ending.value}", why
