"""The worker's end of the lane: which requests are copied, and the socket that takes the copies."""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import Any, Final, cast

import msgpack
import msgspec

from gateway.copied import Asked, Copy, leaves_nothing
from gateway.spec import SamplingSpec
from mirror.copyable import copyable, is_stateful
from mirror.lane import PAUSED, Lane, pack_copy, pack_load, pack_missed, pack_served
from mirror.pair import READ_BYTES
from mirror.sample import Sampler, is_observed
from routing.types import Prompt

_FIRST_CONNECT_S = 0.02
_RECONNECT_S = 0.25
# Each write is a system call and wakes the shadow process, which costs production more than all else of a
# copy; where that shares a core with an engine or a worker they wait for it. So a copy lets its request go
# first, and what comes meanwhile goes with it: arms have it some milliseconds later, all alike. Nobody waits
# for production's answer.
_COPY_LINGER_S: Final = 0.004
_ANSWER_LINGER_S: Final = 0.02
_AT_ONCE_BYTES: Final = 128 << 10  # that much goes at the end of this turn of the loop
_TAKEN_BYTES = 1 << 20  # what the shadow process has to say is small
_Taken = dict[str, tuple[int, dict[str, int]]]


@dataclass(slots=True)
class Experiment:
    """One experiment's sampler and books at this worker.  While it is `paused`, copies are only counted."""

    name: str
    sampler: Sampler
    lane: Lane
    paused: bool = False
    by_session: bool = False
    salt: bytes = b""
    observed: float = 1.0  # the share of its conversations whose answers by production are handed over


class LaneLink(asyncio.Protocol):
    """Hands copies to the shadow process.  Nothing here waits, and nothing here fails a request.

    What comes before anybody ever listened is kept for so many seconds (`keeps_s`) from when there was
    something to sample for, within the lane's bounds: for a reader to whom it does not matter how late it is.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        path: str,
        samplings: Sequence[SamplingSpec],
        *,
        lane_bytes: int,
        copy_bytes: int,
        sees_all: bool,
        keeps_s: float = 0.0,
        copy_linger_s: float = _COPY_LINGER_S,
    ) -> None:
        self._loop = loop
        self._keeps_s = keeps_s
        self._copy_linger_s = copy_linger_s
        self._keeps_until_s: float | None = None  # by the loop's clock; None: nothing was ever sampled
        self._path = path
        self._copy_bytes = copy_bytes
        self._transport: asyncio.WriteTransport | None = None
        self._lane_bytes = lane_bytes
        self._sees_all = sees_all
        self._by_fleet: dict[str | None, list[Experiment]] = {}
        self.experiments: list[Experiment] = []
        self._specs: dict[str, SamplingSpec] = {}
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._waiting_copies: list[Experiment] = []  # whose they are
        self.held_bytes = 0  # of production's answers that have not ended
        self._goes: asyncio.Handle | None = None  # when they are written
        self._goes_at_s = inf  # by the loop's clock
        self._paused: AbstractSet[str] = frozenset()
        self._rates: dict[str, float] = {}
        self._unpacker = msgpack.Unpacker(max_buffer_size=_TAKEN_BYTES)
        self.renew(samplings)

    def renew(self, samplings: Sequence[SamplingSpec]) -> None:
        """Sample for these experiments from now on; one that was there keeps its books, and its conversations
        where its share is what it was."""
        self.tell_missed()
        known = {experiment.name: experiment for experiment in self.experiments}
        self._by_fleet = {}
        for spec in samplings:
            experiment = known.get(spec.experiment)
            if experiment is None:
                experiment = Experiment(spec.experiment, self._sampler(spec), Lane(self._lane_bytes))
            elif self._specs[spec.experiment] != spec:
                self._rates.pop(spec.experiment, None)
                experiment.sampler = self._sampler(spec)
            experiment.paused = spec.experiment in self._paused
            experiment.by_session = spec.by_session
            experiment.salt, experiment.observed = spec.salt, spec.observed
            self._by_fleet.setdefault(spec.fleet, []).append(experiment)
        self._specs = {spec.experiment: spec for spec in samplings}
        self.experiments = [one for group in self._by_fleet.values() for one in group]
        if self.experiments and self._keeps_until_s is None:
            self._keeps_until_s = self._loop.time() + self._keeps_s
        self._give_up_unless_kept()

    def _sampler(self, spec: SamplingSpec) -> Sampler:
        """One that knows no conversation yet; the shadow process may have found another share by now."""
        rate = self._rates.get(spec.experiment, spec.rate)
        return Sampler(spec.salt, min(rate, 1.0), sees_all=self._sees_all)

    def switch(self, paused: AbstractSet[str]) -> None:
        """From now on these experiments, and no others, are paused: no copy of theirs leaves this worker.

        After a pause only conversations that begin anew are copied.  While all are paused, copies that the
        shadow process has not read are given up, for they are memory.
        """
        self._paused = paused
        for experiment in self.experiments:
            was, experiment.paused = experiment.paused, experiment.name in paused
            if was and not experiment.paused:
                experiment.sampler = self._sampler(self._specs[experiment.name])
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() and self.all_paused:
            transport.abort()

    @property
    def all_paused(self) -> bool:
        """Whether there are experiments and none of them is copied."""
        return bool(self.experiments) and all(experiment.paused for experiment in self.experiments)

    @property
    def queued_bytes(self) -> int:
        """What waits here for the shadow process."""
        transport = self._transport
        return self._waiting_bytes + (0 if transport is None else transport.get_write_buffer_size())

    # The socket

    async def keep_connected(self) -> None:
        """Connect to the shadow process, and again whenever it comes back."""
        pause_s = _FIRST_CONNECT_S
        while True:
            if self._transport is None and self.experiments:
                try:
                    await self._loop.create_unix_connection(lambda: self, self._path)
                except OSError:
                    # It starts, or starts again; meanwhile copies are dropped(lane_down), unless kept.
                    self._give_up_unless_kept()
            await asyncio.sleep(pause_s)
            pause_s = min(_RECONNECT_S, 2 * pause_s)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by inheritance
        self._unpacker = msgpack.Unpacker(max_buffer_size=_TAKEN_BYTES)
        self._keeps_until_s = 0.0  # what comes while it is away later is dropped
        self._flush()

    def data_received(self, data: bytes) -> None:
        """The shadow process says what it has taken on this connection, or which shares to copy."""
        try:
            self._unpacker.feed(data)
            for frame in self._unpacker:
                kind, said = msgspec.convert(frame, tuple[str, dict[str, Any]])
                if kind == "taken":
                    self._taken(msgspec.convert(said, _Taken))
                elif kind == "rates":
                    self._rated(msgspec.convert(said, dict[str, float]))
        except (ValueError, msgpack.UnpackException, msgspec.ValidationError):
            if self._transport is not None:
                self._transport.abort()

    def _taken(self, taken: _Taken) -> None:
        for experiment in self.experiments:
            if (counts := taken.get(experiment.name)) is not None:
                experiment.lane.heard(*counts)

    def _rated(self, rates: dict[str, float]) -> None:
        for experiment in self.experiments:
            if (rate := rates.get(experiment.name)) is not None:
                self._rates[experiment.name] = rate
                experiment.sampler.renew(rate)

    def connection_lost(self, exc: Exception | None) -> None:
        """What the shadow process had not confirmed is lost; conversations that lost a turn end with it."""
        self._transport = None
        self._give_up()

    @property
    def _keeps(self) -> bool:
        """Whether what comes is kept for somebody who has not been there yet."""
        until_s = self._keeps_until_s
        return until_s is not None and self._loop.time() < until_s and bool(self.experiments)

    def _give_up_unless_kept(self) -> None:
        if self._transport is None and self._waiting and not self._keeps:
            self._give_up()

    def _give_up(self) -> None:
        """What waits goes nowhere."""
        waiting = self._waiting_copies
        self._waiting, self._waiting_copies, self._waiting_bytes = [], [], 0
        for experiment in self.experiments:
            if experiment.lane.parted(unwritten=waiting.count(experiment)):
                experiment.sampler = self._sampler(self._specs[experiment.name])

    def tell_missed(self) -> None:
        """Write down for the shadow process what was dropped here, for its books, and what waits."""
        self._flush()
        for experiment in self.experiments:
            if self._transport is not None:
                for reason, n in experiment.lane.missed().items():
                    self._transport.write(pack_missed(experiment.name, reason, n))

    def tell_load(self, worker: int, at_ns: int, busy: Mapping[str | None, tuple[int, int]]) -> None:
        """Tell the shadow process how long each fleet's requests were in flight, over how many engines."""
        transport = self._transport
        if transport is None or transport.get_write_buffer_size():
            return  # the next one says it, too
        for fleet, experiments in self._by_fleet.items():
            if (told := busy.get(fleet)) is not None:
                for experiment in experiments:
                    transport.write(pack_load(experiment.name, worker, at_ns, *told))

    @property
    def dropped(self) -> Mapping[tuple[str, str], int]:
        return {(e.name, reason): n for e in self.experiments for reason, n in e.lane.dropped.items()}

    # The hot path

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
        """Offer the request to the first experiment of the fleet that takes its conversation.

        Where none does, the first counts it that would have, had it seen the conversation's first turn.
        """
        late: tuple[Experiment, str] | None = None
        for experiment in self._by_fleet.get(fleet, ()):
            sampler = experiment.sampler
            session = prompt.session if experiment.by_session else 0
            if not sampler.admits(prompt.root, prompt.turns, session):
                if late is None and (why := sampler.missed(prompt.root, prompt.turns, session)) is not None:
                    late = experiment, why
                continue
            if not leaves_nothing(asked, body):
                return None
            if experiment.paused:
                experiment.lane.drop(PAUSED)
                return None
            if len(body) > self._copy_bytes:
                experiment.lane.drop("too_large")
                sampler.shed(prompt.root, session)
                return None
            observed = is_observed(experiment.salt, prompt.root, experiment.observed)
            frame = pack_copy(
                experiment.name,
                request_id,
                asked.target,
                asked.headers,
                body,
                received_ns=received_ns,
                sent_ns=sent_ns,
                root=prompt.root,
                turn=prompt.turns,
                stream=prompt.stream,
                observed=observed,
            )
            if not self._offer(experiment, frame):
                sampler.shed(prompt.root, session)
                return None
            return Copy(experiment, request_id, received_ns, sent_ns, is_observed=observed)
        if late is not None and leaves_nothing(asked, body):
            experiment, why = late
            experiment.lane.drop(PAUSED if experiment.paused else why)
        return None

    def unread(self, fleet: str | None, request_id: bytes, path: str) -> None:
        """Count a request that goes by unread as too large, for the experiment that would have had it.

        Its conversation is not known: it is its id by which it falls into an experiment's share or not.
        """
        if not copyable(path, stateful=is_stateful(path, b"")):
            return
        for experiment in self._by_fleet.get(fleet, ()):
            if experiment.sampler.falls_in(request_id):
                experiment.lane.drop(PAUSED if experiment.paused else "too_large")
                return

    def read(self, copy: Copy, at_ns: int, body: bytes) -> None:
        """Keep a stamped piece of production's answer, up to the cap on copies, and as much as the lane may
        have of all answers under way together."""
        if copy.overflowed:
            return
        size = len(body) + READ_BYTES
        copy.held_bytes += size
        self.held_bytes += size
        if copy.held_bytes <= self._copy_bytes and self.held_bytes <= self._lane_bytes:
            copy.reads.append((at_ns, body))
        else:
            self.forget(copy)  # half an answer is shown to nobody
            copy.overflowed = True

    def forget(self, copy: Copy) -> None:
        """Keep nothing of what was kept of an answer."""
        copy.reads.clear()
        self._let_go(copy)

    def _let_go(self, copy: Copy) -> None:
        """An answer is under way no more."""
        self.held_bytes -= copy.held_bytes
        copy.held_bytes = 0

    def served(
        self, copy: Copy, status: int, content_type: str, head_ns: int | None, end_ns: int, ending: str
    ) -> None:
        """Offer production's own answer, to be shown beside the arms'; a lost one costs no pair."""
        self._let_go(copy)
        if copy.overflowed or not copy.is_observed:
            return
        frame = pack_served(
            copy.experiment.name,
            copy.id,
            status=status,
            content_type=content_type,
            reads=copy.reads,
            chunked=False,
            received_ns=copy.received_ns,
            sent_ns=copy.sent_ns,
            head_ns=head_ns,
            end_ns=end_ns,
            ending=ending,
        )
        self._offer(copy.experiment, frame, copy=False)

    def _offer(self, experiment: Experiment, frame: bytes, *, copy: bool = True) -> bool:
        is_up = self._transport is not None or self._keeps
        if not experiment.lane.offer(frame, self.queued_bytes, is_up, copy=copy):
            return False
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)
        if copy:
            self._waiting_copies.append(experiment)
        now_s = self._loop.time()
        if self._waiting_bytes >= _AT_ONCE_BYTES:
            self._go_at(now_s, now_s)
        else:
            self._go_at(now_s + (self._copy_linger_s if copy else _ANSWER_LINGER_S), now_s)
        return True

    def _go_at(self, at_s: float, now_s: float) -> None:
        """Write what waits then, if it is not written before; what is due goes at the end of this turn."""
        if at_s >= self._goes_at_s:
            return
        if self._goes is not None:
            self._goes.cancel()
        self._goes_at_s = at_s
        loop = self._loop
        self._goes = loop.call_soon(self._flush) if at_s <= now_s else loop.call_at(at_s, self._flush)

    def _flush(self) -> None:
        """Write what waits."""
        if self._goes is not None:
            self._goes.cancel()
        self._goes, self._goes_at_s = None, inf
        if self._transport is None:
            return  # kept for whoever comes
        frames = self._waiting
        self._waiting, self._waiting_copies, self._waiting_bytes = [], [], 0
        if frames:
            self._transport.writelines(frames)
