"""What a client is told when no engine's answer came of its request, or not the whole of it."""

from typing import Final

from gateway.fleets.fleet import Fleet
from gateway.outcome import Outcome
from gateway.refused import Refused
from wire.exchange import Ending
from wire.http1 import Malformed

_STATUS: Final = {Ending.TIMEOUT: 504, Ending.SHUTDOWN: 503, Ending.FULL: 503}
_WHY: Final = {
    Ending.SHUTDOWN: "the gateway stopped, or stopped using this engine, before the answer was whole",
    Ending.FULL: "the gateway has no connection towards the engine to spare; try again in a moment",
}


def failure(ending: Ending, what: Outcome, fleet: Fleet | None, *, busy: bool = False) -> Refused:
    """The gateway's answer to a request whose exchange ended so; `fleet` is the one that was asked.

    `busy`: an engine asked before had no room.  Where the last one was not there, that is what to know.
    """
    if ending is Ending.REFUSED and busy:
        message = "one engine has no room now, and no other could be reached; try again in a moment"
        return Refused(429, message, ending.value, kind="upstream_busy", what=what, retry_after_s=1)
    if ending is Ending.REFUSED and fleet is not None and not fleet.is_up:
        return unavailable(fleet, what)
    status = _STATUS.get(ending, 502)
    why = _WHY.get(ending) or f"the engine's answer ended early ({ending.value})"
    again_s = 1 if status == 503 else None
    return Refused(
        status, why, ending.value, kind=f"upstream_{ending.value}", what=what, retry_after_s=again_s
    )


def unavailable(fleet: Fleet, what: Outcome = Outcome.NO_ENGINE) -> Refused:
    """No engine of the fleet can be asked now."""
    message = f"no engine of {fleet.name} is available"
    return Refused(503, message, "no_engine", kind="service_unavailable", what=what, retry_after_s=2)


def stopping() -> Refused:
    """The gateway stops while a request waits to be sent again."""
    message = "the gateway stopped before the request was sent again"
    kind, what = "service_unavailable", Outcome.SHUTDOWN
    return Refused(503, message, "draining", kind=kind, what=what, retry_after_s=1)


def unfinished(fault: Malformed, reason: str) -> Refused:
    """What came of a request is no request, or does not go on; `reason` is what it is counted under."""
    if fault.status != 503:
        return Refused(fault.status, fault.reason, reason)
    kind, what = "service_unavailable", Outcome.LIMITED
    return Refused(503, fault.reason, reason, kind=kind, what=what, retry_after_s=1)


def too_large(most_bytes: int) -> Refused:
    """A body beyond `limits.body_bytes`."""
    message = f"the body is larger than {most_bytes} bytes"
    return Refused(413, message, "too_large", kind="request_too_large", what=Outcome.TOO_LARGE)
