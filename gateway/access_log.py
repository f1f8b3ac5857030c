"""What is written of a request when it is over: one JSON line of instants and counts, and none of its words.

A line is made when its request is done with and the client has its answer; it is written once a second.  Of
good requests a share is written, drawn; of those that failed all, or, where no share is asked for, a few a
second.  What is not written for want of room is counted by reason.

No prompt, answer, key, header value or query string is in a line.  Names are those of the config: a model
that no fleet lists is "other", for a client may write anything there.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from gateway.outcome import Outcome
from gateway.usage import Usage
from routing.types import Choice

# Whose fault these are not: neither the gateway's nor an engine's.
_NO_FAILURE: Final = frozenset(
    {Outcome.COMPLETE, Outcome.CLIENT_ERROR, Outcome.CLIENT_GONE, Outcome.TOO_LARGE, Outcome.LIMITED}
)
_WAITING_BYTES: Final = 4 << 20
_FAILURES_PER_S: Final = 10.0
_FAILURES_AT_ONCE: Final = 50.0
_PATH_CHARACTERS: Final = 200
_UNTOLD: Final = Usage()


class Line(msgspec.Struct, omit_defaults=True, tag_field="event", tag="request", gc=False):
    """One request, as it is written.  Instants are milliseconds since its head was read whole."""

    process: str
    level: str
    timestamp: datetime  # of the line, at the end
    request_id: str
    method: str
    path: str  # without its query
    outcome: str
    status: int  # what the client was told, 0 when nothing
    bytes_in: int = 0
    bytes_out: int = 0
    key: str | None = None
    fleet: str | None = None
    engine: str | None = None
    model: str | None = None
    retries: int = 0
    why: str | None = None  # the engine was chosen
    cost_s: float | None = None  # as the policy reckons; 0 where it has no such figure
    inflight: int | None = None  # at that engine, before this request; so is `pending_bytes`
    pending_bytes: int | None = None
    cached_bytes: int | None = None
    uncached_bytes: int | None = None
    body_ms: float | None = None
    chosen_ms: float | None = None
    sent_ms: float | None = None
    head_ms: float | None = None
    token_ms: float | None = None
    last_ms: float | None = None
    end_ms: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    prefill_engine: str | None = None  # that computed the prompt, where another one answered
    prefill_chosen_ms: float | None = None
    prefill_sent_ms: float | None = None
    prefill_end_ms: float | None = None
    prefill_cached_bytes: int | None = None
    prefill_uncached_bytes: int | None = None
    propensity: float | None = None  # with which chance this engine was drawn, given all that was known
    costs: Mapping[str, float] | None = None  # every engine's, as the policy reckoned
    host_bytes: int | None = None  # of the prompt, that engine could load from its host's memory, not held
    store_bytes: int | None = None  # or from its stores
    credited_bytes: int | None = None  # of both, counted in `cached_bytes`, for what loading saves


class Prefill(NamedTuple):
    """The leg that computed the prompt.  An instant of 0 never came."""

    engine: str
    choice: Choice
    chosen_ns: int
    sent_ns: int
    end_ns: int


class AccessLog:
    """Lines of one worker on their way out.

    `share` of good requests is written; 0 writes none.  `failures`: whether those that failed are.  `rng` and
    `wall` give chance and the time of day.
    """

    __slots__ = (
        "_encode",
        "_failures",
        "_process",
        "_rng",
        "_room",
        "_room_s",
        "_waiting",
        "_waiting_bytes",
        "_wall",
        "dropped",
        "share",
    )

    def __init__(
        self,
        process: str,
        *,
        share: float = 0.0,
        failures: bool = True,
        rng: Callable[[], float],
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.share = share
        self.dropped: dict[str, int] = defaultdict(int)  # by reason, since the start
        self._process = process
        self._failures = failures
        self._rng = rng
        self._wall = wall
        self._encode = msgspec.json.Encoder().encode
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._room = _FAILURES_AT_ONCE
        self._room_s = 0.0

    def wants(self, what: Outcome, now_s: float, *, drawn: bool | None = None) -> bool:
        """Whether a line is to be made of a request that ended like this.

        To be asked only of those that did not end well, or when there is a `share`: nothing else costs.
        `drawn`: whether it is in the share, where that was drawn at its choice, so that this was explained.
        """
        if what in _NO_FAILURE:
            return self._rng() < self.share if drawn is None else drawn
        if not self._failures:
            return False
        if self.share:
            return True
        self._room = min(_FAILURES_AT_ONCE, self._room + (now_s - self._room_s) * _FAILURES_PER_S)
        self._room_s = now_s
        if self._room < 1.0:
            self.dropped["rate"] += 1
            return False
        self._room -= 1.0
        return True

    def finished(
        self,
        what: Outcome,
        *,
        request_id: str,
        method: bytes,
        path: str,
        status: int,
        received_ns: int,
        end_ns: int,
        body_ns: int = 0,
        chosen_ns: int = 0,
        sent_ns: int = 0,
        head_ns: int = 0,
        token_ns: int = 0,
        last_ns: int = 0,
        bytes_in: int = 0,
        bytes_out: int = 0,
        key: str | None = None,
        fleet: str | None = None,
        engine: str | None = None,
        model: str | None = None,
        retries: int = 0,
        choice: Choice | None = None,
        usage: Usage | None = None,
        prefill: Prefill | None = None,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        """Make the line of a request.  An instant of 0 never came."""

        told = _UNTOLD if usage is None else usage
        # By position and without a helper: this is half the cost of a line.
        line = Line(
            self._process,
            "info" if what in _NO_FAILURE else "warning",
            self._wall(),
            request_id,
            method.decode("latin-1"),
            path[:_PATH_CHARACTERS],
            what.value,
            status,
            bytes_in,
            bytes_out,
            key,
            fleet,
            engine,
            model,
            retries,
            choice.why if choice is not None else None,
            choice.cost_s if choice is not None else None,
            choice.inflight if choice is not None else None,
            choice.pending_bytes if choice is not None else None,
            choice.cached_bytes if choice is not None else None,
            choice.uncached_bytes if choice is not None else None,
            (body_ns - received_ns) // 1000 / 1000 if body_ns else None,
            (chosen_ns - received_ns) // 1000 / 1000 if chosen_ns else None,
            (sent_ns - received_ns) // 1000 / 1000 if sent_ns else None,
            (head_ns - received_ns) // 1000 / 1000 if head_ns else None,
            (token_ns - received_ns) // 1000 / 1000 if token_ns else None,
            (last_ns - received_ns) // 1000 / 1000 if last_ns else None,
            (end_ns - received_ns) // 1000 / 1000,
            told.prompt_tokens,
            told.cached_tokens,
            told.completion_tokens,
        )
        if costs is not None and choice is not None:
            line.propensity, line.costs = choice.propensity, costs
        if choice is not None and choice.below is not None:
            line.host_bytes, line.store_bytes = choice.below
            line.credited_bytes = choice.credited_bytes
        if prefill is not None:
            line.prefill_engine = prefill.engine
            line.prefill_chosen_ms = _ms(prefill.chosen_ns, received_ns)
            line.prefill_sent_ms = _ms(prefill.sent_ns, received_ns)
            line.prefill_end_ms = _ms(prefill.end_ns, received_ns)
            line.prefill_cached_bytes = prefill.choice.cached_bytes
            line.prefill_uncached_bytes = prefill.choice.uncached_bytes
        encoded = self._encode(line)
        if self._waiting_bytes + len(encoded) > _WAITING_BYTES:
            self.dropped["full"] += 1
            return
        self._waiting.append(encoded)
        self._waiting_bytes += len(encoded) + 1

    def take(self) -> list[bytes]:
        """The lines made since the last time, without line ends."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting


def _ms(at_ns: int, received_ns: int) -> float | None:
    return (at_ns - received_ns) // 1000 / 1000 if at_ns else None
