"""How one copy is sent to one arm, and how the arm's answer is read: stamped, to its end, within bounds."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

from mirror import forced, scored
from mirror.frames import Copy
from mirror.headers import MARKER, copy_headers
from mirror.pair import READ_BYTES, Key
from mirror.rewrite import Body
from mirror.spec import TWIN, ArmSpec, MirrorExperiment
from wire.dialect import dialect
from wire.exchange import Ending, Exchange
from wire.http1 import request_bytes
from wire.origin import Origin
from wire.response import ResponseHead
from wire.tls import kept_client
from wire.upstream import Pool

TOO_LARGE = "too_large"
FORCED = "forced_tokens"  # the rewrite: the control's tokens are to be decoded
SCORED = "scored_tokens"  # and: they are to be scored

# Of an answer that was too large, this many reads are kept.
_BEGINNING = 16

# A kept connection that ends this soon after a request, unheard, was closed before the request came.
_RACE_NS = 250_000_000


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request ready to be written, so that writing to all arms takes no time between them."""

    arm: "Arm"
    twin: int
    request: bytes
    rewrites: tuple[str, ...]


class Arm:
    """One engine that receives copies of one experiment, over connections of its own."""

    def __init__(
        self,
        spec: ArmSpec,
        experiment: MirrorExperiment,
        *,
        loop: asyncio.AbstractEventLoop,
        answer_bytes: int,
    ) -> None:
        self.spec = spec
        self.answer_bytes = answer_bytes
        self.timeout_s = experiment.timeout_s
        self.first_byte_s = min(experiment.first_byte_s, experiment.timeout_s)
        self.loop = loop
        self.origin = Origin.parse(spec.url)
        self.pool = self.another_pool()
        self.reading: set[Reading] = set()
        self._busy_ns = 0  # of answers that have ended: how long they were in flight, together
        self.endings: Counter[str] = Counter()
        self.answers = self.failures = 0  # that came, or should have
        self.spared = 0  # copies that it was not sent, for it left the race
        self.rewrites: Counter[str] = Counter()
        self._experiment = experiment
        self._dialect = dialect(spec.kind)

    def another_pool(self) -> Pool:
        """Connections to the engine that nobody else uses."""
        tls = self.spec.tls
        return Pool(
            self.origin,
            loop=self.loop,
            credentials=None if tls is None else kept_client(tls),
            server_name=None if tls is None else tls.server_name,
        )

    def busy_ns(self, now_ns: int) -> int:
        """The time-integral of what was in flight here until now, in request-nanoseconds."""
        return self._busy_ns + sum(now_ns - reading.since_ns for reading in self.reading)

    def ended(self, reading: "Reading", at_ns: int) -> None:
        """An answer is in flight no more."""
        self.reading.discard(reading)
        self._busy_ns += at_ns - reading.since_ns

    def prepare(
        self,
        copy: Copy,
        body: Body,
        twin: int,
        duplicate: int = 0,
        *,
        slot: int | None = None,
        ids: bool = False,
    ) -> Prepared:
        """Build the request: the arm's host and credential, the mark of a copy, the body with its rewrites.

        Of a request that is sent more than once, each `duplicate` and `twin` has a salt of its own, the same
        for all turns and conversations: so it finds in the cache what it left there, and nothing else.
        Where arms take turns, so has each `slot`, named by its beginning: it is as cold as every other.
        `ids`: its tokens' ids are wanted, even if the answer cannot be streamed then.
        The query is left out, for it may hold a credential.  Raises ValueError when a header cannot be sent.
        """
        experiment = self._experiment
        number = 2 * duplicate + twin
        salt = f"shadowlane twin {number} of {experiment.name}" if number else None
        if slot is not None:
            salt = f"shadowlane slot {slot} copy {number} of {experiment.name}"
        content, rewrites = body.for_arm(
            self.spec.model, self._dialect, experiment.models, salt, experiment.logprobs, ids=ids
        )
        request = self._request(
            copy, number, copy.path.partition("?")[0], content, copy_headers(copy.headers)
        )
        return Prepared(self, 1 if self.spec.name == TWIN else twin, request, rewrites)

    def forced(self, copy: Copy, prompt: Sequence[int], tokens: Sequence[int], duplicate: int) -> Prepared:
        """Build the request that makes the arm decode `tokens` after `prompt`, as a tenant of its own."""
        salt = f"shadowlane forced {duplicate} of {self._experiment.name}"
        content = forced.body(
            self.spec.model,
            prompt,
            tokens,
            _hashed(salt),
            self._experiment.logprobs,
        )
        given = [(b"content-type", b"application/json")]
        return Prepared(
            self, 0, self._request(copy, 2 * duplicate + 1, forced.PATH, content, given), (FORCED,)
        )

    def scoring(
        self,
        copy: Copy,
        way: scored.Way,
        prompt: Sequence[int],
        tokens: Sequence[int],
        top: int,
        *,
        duplicate: int,
        twin: int = 0,
    ) -> Prepared:
        """Build the request by which the arm scores `tokens` after `prompt`, as a tenant of its own."""
        salt = f"shadowlane scored {2 * duplicate + twin} of {self._experiment.name}"
        model = Body(copy.path, copy.body).model_for(self.spec.model, self._experiment.models)
        content = scored.body(way, model, prompt, tokens, top, _hashed(salt))
        path, given = scored.PATHS[way], [(b"content-type", b"application/json")]
        return Prepared(
            self, twin, self._request(copy, 2 * duplicate + twin, path, content, given), (SCORED,)
        )

    def probe(self) -> bytes:
        """Build the request that tells whether the arm can decode what it is given."""
        return self._probing(forced.PATH, forced.probe(self.spec.model))

    def scoring_probe(self, way: scored.Way, top: int) -> bytes:
        """Build the request that tells whether the arm scores what it is given, in this way."""
        return self._probing(scored.PATHS[way], scored.probe(way, self.spec.model, top))

    def _probing(self, path: str, content: bytes) -> bytes:
        headers = [("host", self.origin.authority), ("content-type", "application/json"), *self.spec.headers]
        return request_bytes("POST", self.origin.path + path, headers, content)

    def _request(
        self, copy: Copy, number: int, path: str, content: bytes, given: Sequence[tuple[bytes, bytes]]
    ) -> bytes:
        experiment = self._experiment
        headers = [("host", self.origin.authority)]
        headers += [(name.decode("latin-1"), value.decode("latin-1")) for name, value in given]
        headers += [
            ("accept-encoding", "identity"),
            ("x-request-id", f"{_token(copy.id)}-{self.spec.name}-{number}"),
            (MARKER.decode(), experiment.name),
            *self.spec.headers,
        ]
        return request_bytes("POST", self.origin.path + path, headers, content)

    def send(
        self,
        id: str,
        prepared: Prepared,
        order: int,
        *,
        grows: Callable[[str, Key, int], bool],
        done: Callable[[dict[str, Any]], None],
    ) -> None:
        """Write a prepared request of the copy `id` now; never waits.

        `grows(id, key, size)` is told of what comes, and says whether it may be kept: if not, the answer is
        given up.  `done(answer)` is called once.
        """
        self.rewrites.update(prepared.rewrites)
        reading = Reading(self, id, prepared, order, grows, done)
        reading.since_ns = monotonic_ns()
        self.reading.add(reading)
        reading.send()

    def status(self) -> dict[str, Any]:
        """What the arm is doing, for the status frame."""
        return {
            "arm": self.spec.name,
            "url": self.spec.url,
            "inflight": len(self.reading),
            "spared": self.spared,
            "endings": dict(self.endings),
            "rewrites": dict(self.rewrites),
        }

    def give_up(self, id: str | None = None) -> None:
        """End the answers under way (to the copy `id`, or all): their connections close, and the engine is
        rid of the requests."""
        for reading in list(self.reading):
            if id is None or reading.id == id:
                reading.stop(Ending.CANCELLED)

    def count(self, why: str, status: int | None) -> None:
        """An answer has ended.  One that we did not want to its end is neither good nor bad."""
        self.endings[why] += 1
        if why not in (Ending.CANCELLED, TOO_LARGE):
            self.answers += 1
            self.failures += why != Ending.COMPLETE or status is None or status >= 400

    def close(self) -> None:
        """Give up the answers still under way and close all connections."""
        self.give_up()
        self.pool.close()


class Reading:
    """One arm's answer to one copy while it comes."""

    def __init__(
        self,
        arm: Arm,
        id: str,
        prepared: Prepared,
        order: int,
        grows: Callable[[str, Key, int], bool],
        done: Callable[[dict[str, Any]], None],
    ) -> None:
        self.id = id
        self._arm = arm
        self._prepared = prepared
        self._key = (arm.spec.side, prepared.twin)
        self._order = order
        self._grows = grows
        self._done = done
        self.since_ns = 0  # when it came to be in flight
        self._exchange: Exchange | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._sent_ns = 0
        self._head: ResponseHead | None = None
        self._head_ns: int | None = None
        self._reads: list[tuple[int, bytes]] = []
        self._held = 0
        self._why: str | None = None
        self._resent = False

    def send(self) -> None:
        arm = self._arm
        self._timers = [
            arm.loop.call_later(arm.first_byte_s, self._silent),
            arm.loop.call_later(arm.timeout_s, self.stop, Ending.TIMEOUT),
        ]
        self._sent_ns = self.since_ns = monotonic_ns()
        self._exchange = arm.pool.send(self._prepared.request, self)

    def stop(self, why: str) -> None:
        """End the answer here; its ending says why."""
        self._why = str(why)
        if self._exchange is not None:
            self._exchange.cancel()

    def head_came(self, head: ResponseHead, at_ns: int, *, more: bool) -> None:
        self._head, self._head_ns = head, at_ns
        self._timers[0].cancel()

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None:
        size = len(body) + READ_BYTES
        if self._held + size > self._arm.answer_bytes:
            # Its text compares with nothing now; its beginning tells when the first tokens came.
            del self._reads[_BEGINNING:]
            self.stop(TOO_LARGE)
        elif self._grows(self.id, self._key, size):
            self._held += size
            self._reads.append((at_ns, body))
        else:
            self.stop(Ending.CANCELLED)

    def ended(self, ending: Ending, at_ns: int) -> None:
        arm, exchange = self._arm, self._exchange
        if (
            ending is Ending.CUT
            and exchange is not None
            and exchange.reused
            and not exchange.heard
            and not self._resent
            and at_ns - self._sent_ns < _RACE_NS
        ):
            self._resent = True
            self._sent_ns = monotonic_ns()
            self._exchange = arm.pool.send(self._prepared.request, self, fresh=True)
            return
        for timer in self._timers:
            timer.cancel()
        arm.ended(self, at_ns)
        why = self._why or str(ending)
        head = self._head
        arm.count(why, None if head is None else head.status)
        if exchange is not None and exchange.written_ns:
            self._sent_ns = exchange.written_ns  # no connection's making is part of what the arm takes
        self._done(
            {
                "arm": self._key[0],
                "twin": self._key[1],
                "order": self._order,
                "sent_ns": self._sent_ns,
                "head_ns": self._head_ns,
                "status": None if head is None else head.status,
                "content_type": "" if head is None else _content_type(head.headers),
                "reads": self._reads,
                "end_ns": at_ns,
                "ending": why,
                "rewrites": list(self._prepared.rewrites),
            }
        )

    def _silent(self) -> None:
        self.stop(Ending.TIMEOUT)


def _content_type(headers: Sequence[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name.lower() == b"content-type":
            return value.decode("latin-1")
    return ""


def _hashed(salt: str) -> str:
    return hashlib.blake2b(salt.encode()).hexdigest()[:32]


def _token(text: str) -> str:
    """A client's id as a header value: printable and short."""
    return "".join(c for c in text[:128] if "!" <= c <= "~")
