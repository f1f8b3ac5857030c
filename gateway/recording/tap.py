"""The worker's lane with a second one beside it, for what is written down: production waits for neither."""

import asyncio
import os
from collections.abc import Mapping, Sequence

from gateway.copied import Asked, Copy
from gateway.lane_link import LaneLink
from gateway.recording.spec import NAME, SOCKET
from gateway.spec import SamplingSpec, WorkerSpec
from routing.types import Prompt

# For who writes them down it does not matter when requests come: those from before it listens are kept.
_KEEPS_S = 10.0


def lane_of(spec: WorkerSpec, loop: asyncio.AbstractEventLoop) -> "TappedLane":
    """A worker's lane, with a tap for what is recorded, now or after a reload."""
    path = os.path.join(spec.run_dir, "lane.sock")
    bounds = {"lane_bytes": spec.lane_bytes, "copy_bytes": spec.copy_bytes}
    sees_all = spec.workers == 1
    # A recording may begin in the middle of a conversation, which then begins with the turn that is seen.
    recording = LaneLink(
        loop,
        os.path.join(spec.run_dir, SOCKET),
        _listed(spec.record),
        **bounds,
        sees_all=False,
        keeps_s=_KEEPS_S,
        copy_linger_s=0.0,  # a recorder that is told to stop has all by then
    )
    return TappedLane(loop, path, spec.experiments, recording, **bounds, sees_all=sees_all)


def _listed(sampling: SamplingSpec | None) -> tuple[SamplingSpec, ...]:
    return () if sampling is None else (sampling,)


class _Both(Copy):
    """A request that goes to arms and is written down: one list of reads, two hand-overs."""

    __slots__ = ("recorded",)

    def __init__(self, copy: Copy, recorded: Copy) -> None:
        observed = copy.is_observed
        super().__init__(copy.experiment, copy.id, copy.received_ns, copy.sent_ns, is_observed=observed)
        self.is_kept = True
        self.recorded = recorded


class TappedLane(LaneLink):
    """A lane to the shadow process that also feeds `recording`, a lane of its own socket and bounds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        path: str,
        samplings: Sequence[SamplingSpec],
        recording: LaneLink,
        *,
        lane_bytes: int,
        copy_bytes: int,
        sees_all: bool,
    ) -> None:
        self._recording = recording
        super().__init__(
            loop, path, samplings, lane_bytes=lane_bytes, copy_bytes=copy_bytes, sees_all=sees_all
        )

    def record(self, sampling: SamplingSpec | None) -> None:
        """Write down this share of what comes from now on; None: nothing."""
        self._recording.renew(_listed(sampling))

    async def keep_connected(self) -> None:
        """Connect to both processes, and again whenever one comes back."""
        await asyncio.gather(super().keep_connected(), self._recording.keep_connected())

    def tell_missed(self) -> None:
        """Write down for each process what it was not given."""
        super().tell_missed()
        self._recording.tell_missed()

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        return {**super().dropped, **self._recording.dropped}

    def copied(
        self,
        fleet: str | None,
        request_id: str,
        asked: Asked,
        body: bytes,
        prompt: Prompt,
        received_ns: int,
        sent_ns: int,
    ) -> Copy | None:
        """Offer the request to an experiment, and to the recording."""
        copy = super().copied(fleet, request_id, asked, body, prompt, received_ns, sent_ns)
        if not self._recording.experiments:
            return copy
        recorded = self._recording.copied(None, request_id, asked, body, prompt, received_ns, sent_ns)
        if copy is None or recorded is None:
            return copy or recorded
        return _Both(copy, recorded)

    def unread(self, fleet: str | None, request_id: bytes, path: str) -> None:
        """Count a request that goes by unread, wherever it would have gone."""
        super().unread(fleet, request_id, path)
        self._recording.unread(None, request_id, path)

    def served(
        self, copy: Copy, status: int, content_type: str, head_ns: int | None, end_ns: int, ending: str
    ) -> None:
        """Offer production's answer to whoever has its request."""
        if copy.experiment.name == NAME:
            self._let_go(copy)
            self._recorded(copy, copy, status, content_type, head_ns, end_ns, ending)
            return
        super().served(copy, status, content_type, head_ns, end_ns, ending)
        if isinstance(copy, _Both):
            self._recorded(copy.recorded, copy, status, content_type, head_ns, end_ns, ending)

    def _recorded(
        self,
        recorded: Copy,
        copy: Copy,
        status: int,
        content_type: str,
        head_ns: int | None,
        end_ns: int,
        ending: str,
    ) -> None:
        if recorded is not copy:
            recorded.reads, recorded.sent_ns = copy.reads, copy.sent_ns
        if copy.overflowed:
            # Its text is gone, and its lengths are not known; that it was asked and how it ended still is.
            recorded.reads, recorded.overflowed = [], False
        self._recording.served(recorded, status, content_type, head_ns, end_ns, ending)
