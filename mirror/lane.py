"""The worker's end of the lane to the shadow process: what fits is taken, the rest is dropped and counted."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

LANE_FULL = "lane_full"
LANE_DOWN = "lane_down"
LANE_LOST = "lane_lost"
PAUSED = "paused"
TOO_LARGE = "too_large"

_encode = msgspec.msgpack.Encoder().encode  # made once: it is on the way of every copy


class Lane:
    """Decides for one experiment, frame by frame, whether the lane takes it.  Never waits, never grows.

    `limit_bytes` bounds what waits in the socket's buffer; a frame above `frame_bytes` (default: the limit)
    never goes. The newest frame is the one dropped.  `dropped` counts copies, which the books must account
    for; a production answer that did not fit only leaves a pair without production, and is counted in
    `unserved`.

    A copy that was taken is `under_way` until the shadow process says that it has it (`heard`), or is gone
    (`parted`).  At every moment sampled = taken + under_way + the sum of dropped: `sampled` are all copies
    this lane was ever asked about.
    """

    def __init__(self, limit_bytes: int, frame_bytes: int | None = None) -> None:
        self._limit = limit_bytes
        self._frame = limit_bytes if frame_bytes is None else min(frame_bytes, limit_bytes)
        self._dropped: Counter[str] = Counter()
        self._unserved: Counter[str] = Counter()
        self._told: Counter[str] = Counter()
        self._known: Counter[str] = Counter()  # of what was told: what the shadow processes have confirmed
        self._known_before: Counter[str] = Counter()  # of it, by connections that are gone
        self._written = 0  # copies, on this connection
        self._taken_here = 0
        self._taken_before = 0

    @property
    def taken(self) -> int:
        """Copies that a shadow process has confirmed."""
        return self._taken_before + self._taken_here

    @property
    def under_way(self) -> int:
        """Copies that were taken and not confirmed yet."""
        return self._written - self._taken_here

    @property
    def sampled(self) -> int:
        """Copies offered or dropped since the start."""
        return self.taken + self.under_way + self._dropped.total()

    @property
    def dropped(self) -> Mapping[str, int]:
        """Copies dropped since the start, by reason."""
        return self._dropped

    @property
    def unserved(self) -> Mapping[str, int]:
        """Production answers dropped since the start, by reason."""
        return self._unserved

    def offer(self, frame: bytes, queued_bytes: int, connected: bool, *, copy: bool = True) -> bool:
        """Whether to write `frame` now.  `queued_bytes` is what the socket has not sent yet.

        `copy=False` for a "served" frame.  False means dropped and counted: the caller forgets the frame,
        and for a copy tells the sampler to shed the conversation.
        """
        reason = self._refusal(len(frame), queued_bytes, connected)
        if reason is None:
            self._written += copy
            return True
        (self._dropped if copy else self._unserved)[reason] += 1
        return False

    def drop(self, reason: str, n: int = 1) -> None:
        """Count copies that never became a frame, such as a body above the cap."""
        self._dropped[reason] += n

    def missed(self) -> dict[str, int]:
        """Drops not told to the shadow process yet, by reason; each is given out once a connection.

        To be written as "missed" frames whenever the lane is up.
        """
        fresh = {
            reason: n - self._told[reason] for reason, n in self._dropped.items() if n > self._told[reason]
        }
        self._told.update(fresh)
        return fresh

    def heard(self, copies: int, missed: Mapping[str, int]) -> None:
        """The shadow process has taken so many copies and, by reason, drops, since this connection began."""
        self._taken_here = max(self._taken_here, min(copies, self._written))
        for reason, n in missed.items():
            self._known[reason] = min(self._told[reason], self._known_before[reason] + n)

    def parted(self, unwritten: int = 0) -> int:
        """The connection is gone: what was not confirmed on it is lost, and counted; how many copies.

        `unwritten` of them were never written, and count as the lane's being down.  Drops that were told and
        not confirmed are told again.
        """
        lost = self.under_way
        self._taken_before += self._taken_here
        self._written = self._taken_here = 0
        self._told, self._known_before = Counter(self._known), Counter(self._known)
        unwritten = min(unwritten, lost)
        for reason, n in ((LANE_DOWN, unwritten), (LANE_LOST, lost - unwritten)):
            if n:
                self._dropped[reason] += n
        return lost

    def _refusal(self, size: int, queued_bytes: int, connected: bool) -> str | None:
        if size > self._frame:
            return TOO_LARGE
        if not connected:
            return LANE_DOWN
        if queued_bytes + size > self._limit:
            return LANE_FULL
        return None


def pack_copy(
    experiment: str,
    id: str,
    path: str,
    headers: Sequence[tuple[bytes, bytes]],
    body: bytes | bytearray | memoryview,
    *,
    received_ns: int,
    sent_ns: int,
    root: int,
    turn: int,
    stream: bool,
    observed: bool = True,
) -> bytes:
    """One sampled request.  `headers` are those `copy_headers` lets through; instants are monotonic.

    `observed`: production's answer will follow.
    """
    return _pack(
        "copy",
        {
            "experiment": experiment,
            "id": id,
            "path": path,
            "headers": headers,
            "body": body,
            "received_ns": received_ns,
            "sent_ns": sent_ns,
            "root": root,
            "turn": turn,
            "stream": stream,
            "observed": observed,
        },
    )


def pack_served(
    experiment: str,
    id: str,
    *,
    status: int | None,
    content_type: str,
    reads: Sequence[tuple[int, bytes | bytearray | memoryview]],
    chunked: bool,
    received_ns: int,
    sent_ns: int,
    head_ns: int | None,
    end_ns: int,
    ending: str,
) -> bytes:
    """What production answered to a sampled request: raw bytes after the head, one entry a socket read."""
    return _pack(
        "served",
        {
            "experiment": experiment,
            "id": id,
            "status": status,
            "content_type": content_type,
            "reads": reads,
            "chunked": chunked,
            "received_ns": received_ns,
            "sent_ns": sent_ns,
            "head_ns": head_ns,
            "end_ns": end_ns,
            "ending": ending,
        },
    )


def pack_missed(experiment: str, reason: str, n: int) -> bytes:
    """Copies the worker dropped, so that the books of the shadow process close."""
    return _pack("missed", {"experiment": experiment, "reason": reason, "n": n})


def pack_load(experiment: str, worker: int, at_ns: int, busy_ns: int, engines: int) -> bytes:
    """How long requests to the experiment's fleet were in flight until now (`mirror.frames.Load`)."""
    return _pack(
        "load",
        {
            "experiment": experiment,
            "worker": worker,
            "at_ns": at_ns,
            "busy_ns": busy_ns,
            "engines": engines,
        },
    )


def pack_rates(rates: Mapping[str, float]) -> bytes:
    """What the shadow process has found each experiment's share of conversations to have to be."""
    return _pack("rates", dict(rates))


def pack_taken(counts: Mapping[str, tuple[int, Mapping[str, int]]]) -> bytes:
    """What the shadow process has taken on one connection: {experiment: (copies, drops by reason)}."""
    return _pack("taken", dict(counts))


def _pack(kind: str, fields: dict[str, object]) -> bytes:
    return _encode((kind, fields))
