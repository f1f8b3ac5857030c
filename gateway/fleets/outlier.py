"""Which engines of a fleet are left out because of how they answered, and when is one tried again?

Two things are told apart.  An engine is *gone* when nobody is there: connections refused or probes failed,
so many in a row.  The first good probe, or an answer, brings it back.  It is *ejected* when somebody is there
who answers badly: most of its answers are 5xx while the other engines' are not, or requests get no first
token and nothing else of it shows life.  After a time that doubles with each further ejection it is on
*trial*: one request may go there, and its answer decides.  Slow is not dead: while other answers of an engine
come in, no silence counts against it.

A fleet is never left out as a whole.  At most a share of it is ejected, and never the last good engine; where
none is good, those that are there are tried, and where none is there all are.

Nothing here is called for a request that goes well: what such a request leaves behind are the engine's own
counters, which are looked at once a second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from gateway.spec import HealthSpec

# A share of errors makes an outlier only when it is this many times that of the other engines together: what
# all of them answer badly is the requests' fault, or the model's.
_WORSE_THAN_OTHERS = 2.0
# With little traffic the window of errors stretches up to this many times its length, to hold enough answers.
_STRETCH = 6


class State(StrEnum):
    """What is thought of an engine; a label of the metrics."""

    NEW = "new"  # added at a reload, and not heard yet
    GOOD = "good"
    GONE = "gone"
    EJECTED = "ejected"
    TRIAL = "trial"


class Reason(StrEnum):
    """Why an engine was left out; a label of the metrics."""

    CONNECT = "connect"
    PROBE = "probe"
    ERRORS = "errors"
    TIMEOUTS = "timeouts"


@dataclass(frozen=True, slots=True)
class Mark:
    """What an engine had counted at an instant."""

    at_ns: int = 0
    answers: int = 0
    errors: int = 0


@dataclass(slots=True)
class Standing:
    """What is held against one engine."""

    state: State = State.GOOD
    why: str | None = None  # the last thing that went wrong, in words, while it counts
    left_out: dict[Reason, int] = field(default_factory=dict)  # how often, since the start
    misses: int = 0  # refused connections and failed probes in a row
    answers_at_miss: int = 0
    timeouts: int = 0  # requests without a first token in a row
    timeout_ns: int = 0
    ejections: int = 0  # how often lately: the next one's length
    until_ns: int = 0  # the end of an ejection, or of the patience with a trial; 0: to be set
    since: Mark = field(default_factory=Mark)  # the state's beginning
    older: Mark = field(default_factory=Mark)  # errors are counted from here
    newer: Mark = field(default_factory=Mark)


class Judged(Protocol):
    """What is looked at of an engine.  `up` and `on_trial` are written here and nowhere else."""

    up: bool  # may be chosen
    on_trial: bool  # may be chosen once; who chooses it says so with `tried`
    answers: int  # heads of answers, of any status
    errors: int  # answers that were 5xx
    token_ns: int  # when the last first token came
    standing: Standing


def missed(engine: Judged, why: str, reason: Reason, spec: HealthSpec) -> bool:
    """A connection was refused or a probe failed; True when the engine is gone by that."""
    standing = engine.standing
    if standing.answers_at_miss != engine.answers:
        standing.answers_at_miss, standing.misses = engine.answers, 0
    standing.misses += 1
    standing.why = why
    if standing.state in (State.GONE, State.NEW):
        return False
    if standing.misses < spec.failures and standing.state is not State.TRIAL:
        return False
    standing.left_out[reason] = standing.left_out.get(reason, 0) + 1
    _enter(engine, State.GONE, 0)
    return True


def found(engine: Judged, at_ns: int) -> bool:
    """A probe was answered; True when the engine is back by that, with nothing held against it."""
    standing = engine.standing
    standing.misses = 0
    if standing.state not in (State.GONE, State.NEW):
        return False
    _good(engine, at_ns)
    standing.ejections = 0  # another process, as a rule
    return True


def erred(
    engine: Judged, engines: Sequence[Judged], why: str, spec: HealthSpec, at_ns: int,
    rng: Callable[[], float],
) -> bool:  # fmt: skip
    """An answer was a 5xx; True when the engine is ejected by that."""
    engine.errors += 1
    standing = engine.standing
    standing.why = why
    if standing.state is State.TRIAL:
        return _eject(engine, engines, Reason.ERRORS, spec, at_ns, rng)
    if standing.state is not State.GOOD:
        return False
    answers, errors = _lately(engine)
    if answers < spec.error_answers or errors < spec.error_share * answers:
        return False
    others = [_lately(one) for one in engines if one is not engine and one.standing.state is State.GOOD]
    theirs = sum(errors for _, errors in others) / max(1, sum(answers for answers, _ in others))
    if errors / answers < _WORSE_THAN_OTHERS * theirs:
        return False
    return _eject(engine, engines, Reason.ERRORS, spec, at_ns, rng)


def timed_out(
    engine: Judged, engines: Sequence[Judged], sent_ns: int, life_ns: int, spec: HealthSpec, at_ns: int,
    rng: Callable[[], float],
) -> bool:  # fmt: skip
    """A request sent at `sent_ns` got no first token in its time; True when the engine is ejected by that.

    `life_ns` is when anything was last read of a running answer of that engine; 0: nothing.
    """
    standing = engine.standing
    if max(engine.token_ns, life_ns) > sent_ns:
        return False  # others are served: this one waits its turn
    if engine.token_ns > standing.timeout_ns:
        standing.timeouts = 0
    standing.timeouts += 1
    standing.timeout_ns = at_ns
    standing.why = "no first token"
    if standing.state is State.TRIAL or (standing.state is State.GOOD and standing.timeouts >= spec.timeouts):
        return _eject(engine, engines, Reason.TIMEOUTS, spec, at_ns, rng)
    return False


def tried(engine: Judged) -> None:
    """The one request of a trial was sent."""
    engine.on_trial = False
    engine.standing.until_ns = 0


def look(engines: Sequence[Judged], spec: HealthSpec, now_ns: int) -> None:
    """What time and the answers that came have changed; about once a second.  `settle` is to follow."""
    for engine in engines:
        standing = engine.standing
        if standing.state is State.GOOD:
            _pass_time(engine, spec, now_ns)
        elif standing.state is State.GONE:
            if engine.answers > standing.since.answers:
                _good(engine, now_ns)
        elif standing.state is State.EJECTED:
            if now_ns >= standing.until_ns:
                _enter(engine, State.TRIAL, now_ns)
                engine.on_trial = True
        elif standing.state is State.TRIAL:
            came, bad = engine.answers - standing.since.answers, engine.errors - standing.since.errors
            if came > bad:
                _good(engine, now_ns)
            elif not engine.on_trial and not standing.until_ns:
                standing.until_ns = now_ns + int(spec.ejection_s * 1e9)
            elif not engine.on_trial and now_ns >= standing.until_ns:
                engine.on_trial = True  # no answer yet, which is no bad one: another may try


def settle(engines: Sequence[Judged]) -> None:
    """Write down who may be chosen."""
    usable = [one for one in engines if one.standing.state is State.GOOD or one.on_trial]
    if not usable:
        usable = [one for one in engines if one.standing.state in (State.EJECTED, State.TRIAL)]
    if not usable:
        usable = [one for one in engines if one.standing.state is State.GONE]
    chosen = {id(one) for one in usable}
    for engine in engines:
        engine.up = id(engine) in chosen


def _eject(
    engine: Judged, engines: Sequence[Judged], reason: Reason, spec: HealthSpec, at_ns: int,
    rng: Callable[[], float],
) -> bool:  # fmt: skip
    standing = engine.standing
    if standing.state is not State.TRIAL:
        out = sum(one.standing.state is not State.GOOD for one in engines)
        most = max(1, int(spec.ejected_share * len(engines))) if spec.ejected_share else 0
        if out >= min(most, len(engines) - 1):
            return False
    standing.left_out[reason] = standing.left_out.get(reason, 0) + 1
    length_s = min(spec.ejection_max_s, spec.ejection_s * 2.0**standing.ejections)
    _enter(engine, State.EJECTED, at_ns)
    standing.ejections = min(standing.ejections + 1, 32)
    standing.until_ns = at_ns + int(length_s * (0.75 + 0.5 * rng()) * 1e9)
    return True


def _pass_time(engine: Judged, spec: HealthSpec, now_ns: int) -> None:
    """Move the window of errors on, and forget an ejection after as long without another as it could take."""
    standing = engine.standing
    half_ns, since_ns = int(spec.error_window_s * 0.5e9), now_ns - standing.newer.at_ns
    answers = engine.answers - standing.newer.answers
    if since_ns >= half_ns and (answers >= spec.error_answers or since_ns >= _STRETCH * half_ns):
        standing.older = standing.newer
        standing.newer = Mark(now_ns, engine.answers, engine.errors)
    if standing.ejections and now_ns - standing.since.at_ns >= int(spec.ejection_max_s * 1e9):
        standing.ejections -= 1
        standing.since = Mark(now_ns, engine.answers, engine.errors)


def _lately(engine: Judged) -> tuple[int, int]:
    older = engine.standing.older
    errors = engine.errors - older.errors
    return max(errors, engine.answers - older.answers), errors


def _good(engine: Judged, at_ns: int) -> None:
    standing = engine.standing
    _enter(engine, State.GOOD, at_ns)
    standing.why = None
    standing.misses = standing.timeouts = 0
    standing.older = standing.newer = standing.since


def _enter(engine: Judged, state: State, at_ns: int) -> None:
    standing = engine.standing
    standing.state = state
    standing.until_ns = 0
    standing.since = Mark(at_ns, engine.answers, engine.errors)
    engine.on_trial = False
