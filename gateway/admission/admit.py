"""May this request run now, must it wait, or is it refused?  One worker's admission, without clock or I/O.

The relay asks with the request whole, tells the ticket each engine it goes to and its one ending, and is
called back when a turn comes.  What is held is in the shared table (`table.Table`); queues are this worker's.
"""

from collections import deque
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Protocol

from gateway.admission import limits, refusal
from gateway.admission.keys import Key, KeyRing, Used, digest_of
from gateway.admission.ledger import CLASS_NAMES, Ledger
from gateway.admission.refusal import Refused
from gateway.admission.room import Engine, Fleet, Room
from gateway.admission.table import CLASSES, Table
from gateway.admission.ticket import ENDED, NO_SEAT, RUNNING, WAITING, OnTurn, Ticket, Usage
from gateway.durations import Durations
from gateway.spec import AdmissionSpec, RoomSpec

_BY_NAME = {name.encode(): at for at, name in enumerate(CLASS_NAMES)}
_MOST_RETRY_NS = 60_000_000_000


class Bell(Protocol):
    """How workers hear of their turns.  Both return at once."""

    def ring(self, worker: int) -> None:
        """Another worker's request is next: it should `poll`."""

    def waits(self) -> None:
        """Something waits here from now on: `poll` every few milliseconds while `waiting` is not 0."""


class Admission:
    """Keys, limits, queue and turns of one worker, in step with the others through the table."""

    __slots__ = (
        "_asking", "_bell", "_cells", "_everyone", "_ledger", "_ring", "_rings", "_rooms", "_spec",
        "_table", "_telling", "_told", "_wait_ns", "_worker", "waiting",
    )  # fmt: skip

    def __init__(
        self, spec: AdmissionSpec, table: Table, worker: int, fleets: Mapping[str | None, Fleet], bell: Bell,
        counts: MutableMapping[tuple[str, ...], int],
    ) -> None:  # fmt: skip
        """`fleets`: by their models, those of the spec's rooms.  `counts` gets what happens, by series."""
        self._table = table
        self._cells = table.cells
        self._worker = worker
        self._bell = bell
        self._ledger = Ledger(counts)
        self._rooms: dict[str | None, Room] = {}
        self._told: deque[tuple[Ticket, Refused | None]] = deque()
        self._telling = False
        self._rings: set[int] = set()
        self._asking: Ticket | None = None
        self.waiting = 0  # requests that wait in this worker
        self.apply(spec, fleets)

    def apply(self, spec: AdmissionSpec, fleets: Mapping[str | None, Fleet]) -> None:
        """Use other keys, fleets and bounds from now on.  What runs or waits keeps what it has taken.

        Whoever is still there keeps its slot; a slot is another's only when nothing is held there any more.
        ValueError, and nothing changed, when a slot is not in the table.
        """
        table, worker = self._table, self._worker
        if not all(0 <= room.slot < table.fleets for room in spec.rooms) or not all(
            0 <= key.slot < table.key_slots for key in spec.keys
        ):
            raise ValueError("more fleets or keys than the table has room for")
        self._spec = spec
        self._everyone = limits.key_of(replace(spec.everyone, slot=table.all_keys), table, worker, Used())
        keys = [
            (key.hash, limits.key_of(key, table, worker, self._ledger.used[key.name])) for key in spec.keys
        ]
        hashed = [(digest_of(hash), key) for hash, key in keys if hash is not None]
        self._ring = KeyRing(hashed, next((key for hash, key in keys if hash is None), None))
        self._wait_ns = int(spec.queue_wait_s * 1e9)
        for bounds in spec.rooms:
            room = self._rooms.get(bounds.model)
            if room is None or room.slot != bounds.slot:
                self._rooms[bounds.model] = Room(bounds, fleets[bounds.model], table, worker, spec.trickle)
            else:
                room.apply(bounds, fleets[bounds.model], spec.trickle)
        for model in self._rooms.keys() - {bounds.model for bounds in spec.rooms}:
            gone = self._rooms[model]  # whoever waits there is let through, to hear that nobody serves it
            gone.apply(RoomSpec(model, gone.slot), _NoFleet(), spec.trickle)

    # What the relay asks

    def identify(self, credential: bytes) -> Key | None:
        """Whose request this is, by its `Authorization` or `x-api-key` field; b"" where it has none."""
        return self._ring.identify(credential)

    @property
    def knows_keys(self) -> bool:
        """Whether credentials are this gateway's to judge, and so no business of engines."""
        return not self._ring.takes_any

    def unidentified(self, credential: bytes) -> Refused:
        """The answer where `identify` knows nobody."""
        return self._ledger.limited(refusal.unidentified(credential), "none", 1)

    def ask(
        self, key: Key, fleet: str | None, *, prompt_bytes: int, body_bytes: int, priority: bytes, at_ns: int,
        on_turn: OnTurn, may_wait: bool = True, may_move: bool = True,
    ) -> Ticket | Refused:  # fmt: skip
        """Let a request for a fleet (its model) in, refuse it, or let it wait (`Ticket.waits`).

        `priority` is what the client wrote: it may lower the class its key has, not raise it.  `on_turn` is
        called for a ticket that waits, once: with None when its turn has come, or with why it is refused.
        It is never called from inside this method for this ticket.  `may_wait` is False for a request that is
        not held whole: it is refused where it would wait.  `may_move`: another fleet can answer it as well.
        """
        wanted = max(key.priority, _BY_NAME.get(priority.strip().lower(), 0)) if priority else key.priority
        tokens = -int(-prompt_bytes // self._spec.bytes_per_token)
        table = self._table
        table.lock()
        try:
            refused = limits.met(key, self._everyone, table, tokens, at_ns)
            if refused is None:
                ticket = Ticket(self, key, fleet, wanted, tokens, body_bytes, at_ns, on_turn)
                refused = self._place(ticket, at_ns, may_wait=may_wait, may_move=may_move)
        finally:
            self._asking = None
            table.unlock()
        if self._told or self._rings:
            self._tell()
        return ticket if refused is None else self._ledger.limited(refused, key.name, wanted)

    def full(self, fleet: str | None) -> tuple[int, ...]:
        """Engines with no room left, to be left out of the choice."""
        table = self._table
        caps = self._rooms[fleet].caps
        return tuple(id for id, most in caps.items() if table.total(table.seats + id) >= most)

    def poll(self, at_ns: int) -> int:
        """Look again whose turn it is, and end what waited too long; how many wait here then."""
        if not self.waiting:
            return 0
        self._table.lock()
        try:
            for room in list(self._rooms.values()):
                while (oldest := room.line.oldest) is not None and at_ns - oldest.entered_ns >= self._wait_ns:
                    message = f"no room at {room.spec.name} within {self._spec.queue_wait_s:g} s"
                    self._turn_away(room, oldest, refusal.QUEUE_WAIT, message)
                if len(room.line):
                    self._give_turns(room, at_ns)
        finally:
            self._table.unlock()
        self._tell()
        return self.waiting

    def stop(self) -> None:
        """The worker ends: whoever still waits here is told so."""
        self._table.lock()
        try:
            for room in self._rooms.values():
                for ticket in list(room.line):
                    self._turn_away(
                        room, ticket, refusal.STOPPING, "the gateway stops; try again in a moment"
                    )
        finally:
            self._table.unlock()
        self._tell()

    def gauges(self) -> dict[tuple[str, ...], float]:
        """What waits and runs in this worker, by the names and labels of `gateway.metrics`."""
        gauges: dict[tuple[str, ...], float] = {("key_inflight", name): 0.0 for name in self._ledger.used}
        for room in self._rooms.values():
            for at, name in enumerate(CLASS_NAMES):
                gauges[("waiting", room.spec.name, name)] = room.line.waiting(at)
        for key in self._spec.keys:
            at = self._table.at(self._table.inflight + key.slot, self._worker)
            gauges[("key_inflight", key.name)] = self._cells[at]
        return gauges

    def usage(self) -> dict[tuple[str, ...], int]:
        """What was counted since this worker started, by series, besides what is in `counts`."""
        return {**self._ledger.usage(), ("lock_missed",): self._table.lock_missed}

    def waits(self) -> dict[tuple[str, ...], Durations]:
        """See `Ledger.waits`."""
        return self._ledger.waits()

    # What tickets tell

    def sit(self, ticket: Ticket, engine: int) -> bool:
        """See `Ticket.sit`."""
        if engine == ticket.seat or ticket.state is not RUNNING:
            return True
        table, most = self._table, self._rooms[ticket.fleet].caps.get(engine)
        if most is not None:
            table.lock()
            has_room = table.total(table.seats + engine) < most
            if has_room:
                self._cells[table.at(table.seats + engine, self._worker)] += 1
            table.unlock()
            if not has_room:
                return False
        self._stand(ticket)
        ticket.seat = NO_SEAT if most is None else engine
        return True

    def end(self, ticket: Ticket, usage: Usage | None, at_ns: int, *, gives_back: bool) -> None:
        """The one place where what a ticket holds is released, however it ends."""
        state = ticket.state
        if state is ENDED:
            return
        table, room = self._table, self._rooms[ticket.fleet]
        table.lock()
        try:
            if state is WAITING:
                self._unqueue(room, ticket)
            else:
                self._stand(ticket)
                self._cells[table.at(table.running + room.slot, self._worker)] -= 1
            self._release(ticket, gives_back=gives_back)
            if gives_back:
                if state is RUNNING and room.is_bounded:
                    room.turns.uncharge(ticket)
            elif usage is not None:
                limits.correct(ticket.key, self._everyone, ticket.prompt_tokens, usage.prompt_tokens, at_ns)
                if room.is_bounded:
                    room.turns.correct(ticket, usage)
            if room.is_bounded and table.total(table.waiting + room.slot):
                self._give_turns(room, at_ns)
        finally:
            table.unlock()
        if not gives_back:
            used = ticket.key.used
            used.requests += 1
            if usage is not None:
                used.prompt_tokens += usage.prompt_tokens
                used.cached_tokens += usage.cached_tokens
                used.output_tokens += usage.output_tokens
        if self._told or self._rings:
            self._tell()

    # Under the lock

    def _place(self, ticket: Ticket, at_ns: int, *, may_wait: bool, may_move: bool) -> Refused | None:
        """Let it run if there is room and nobody before it; else the fallback, the queue, or neither."""
        room = self._rooms[ticket.fleet]
        if not self._is_free(room, at_ns):
            fallback = room.spec.fallback if may_move else None
            if fallback is not None and self._is_free(self._rooms[fallback], at_ns):
                room = self._rooms[fallback]
                ticket.fleet = fallback
                ticket.degraded = f"fleet={room.spec.name}"
                self._ledger.degraded(room.spec.name, "fallback")
            elif not (room.spec.waits and may_wait):
                message = f"{room.spec.name} is out of room"
                self._ledger.degraded(room.spec.name, "refused")
                return refusal.overloaded(refusal.FLEET_FULL, message, _retry_ns(room, 1), "refused")
            else:
                return self._queue(room, ticket, at_ns)
        self._take(ticket, at_ns)
        if room.is_bounded:
            room.turns.start(ticket)
        self._run(room, ticket, at_ns)
        return None

    def _is_free(self, room: Room, at_ns: int) -> bool:
        """Whether a request that comes may run at once: there is room, and nobody waits for it."""
        if not room.is_bounded:
            return True
        table = self._table
        return self._has_room(room, at_ns) and not table.total(table.waiting + room.slot)

    def _has_room(self, room: Room, at_ns: int) -> bool:
        return self._table.total(self._table.running + room.slot) < room.capacity(at_ns)

    def _queue(self, room: Room, ticket: Ticket, at_ns: int) -> Refused | None:
        spec, table = self._spec, self._table
        entries = table.total(table.waiting + room.slot)
        held_bytes = table.total(table.waiting_bytes + room.slot)
        if entries >= spec.queue_entries or held_bytes + ticket.body_bytes > spec.queue_bytes:
            victim = room.line.victim(ticket)
            left_bytes = held_bytes + ticket.body_bytes - (0 if victim is None else victim.body_bytes)
            if victim is None or left_bytes > spec.queue_bytes:
                is_long = entries >= spec.queue_entries
                reason = refusal.QUEUE_ENTRIES if is_long else refusal.QUEUE_BYTES
                most = f"{spec.queue_entries} requests" if is_long else f"{spec.queue_bytes} bytes"
                message = f"{room.spec.name} is out of room, and its queue of {most} is full"
                return refusal.overloaded(reason, message, _retry_ns(room, entries))
            message = f"{room.spec.name} is out of room, and a request that comes first took this one's place"
            self._turn_away(room, victim, refusal.SHED, message)
        self._take(ticket, at_ns)
        if not room.line.holds(ticket):
            room.turns.start(ticket)
        room.line.add(ticket)
        self._cells[table.at(table.waiting + room.slot, self._worker)] += 1
        self._cells[table.at(table.waiting_bytes + room.slot, self._worker)] += ticket.body_bytes
        self.waiting += 1
        self._asking = ticket
        self._give_turns(room, at_ns)
        if ticket.state is WAITING and self.waiting == 1:
            self._bell.waits()
        return None

    def _give_turns(self, room: Room, at_ns: int) -> None:
        """Let run whose turn it is while there is room; another worker's turn is left to it for a while."""
        line, turns = room.line, room.turns
        turns.publish()
        while self._has_room(room, at_ns) and (due := turns.next()) is not None:
            worker, priority = due
            if worker != self._worker:
                self._rings.add(worker)
                if not len(line) or turns.left_to_other(at_ns):
                    return
                priority = next(at for at in range(CLASSES) if line.waiting(at))
            ticket = line.head(priority)
            assert ticket is not None  # `publish` has just told so
            self._unqueue(room, ticket)
            turns.taken(ticket)
            self._run(room, ticket, at_ns)
            line.turned(at_ns)
            if ticket is self._asking:
                continue
            ticket.waited_ns = at_ns - ticket.entered_ns
            self._ledger.waited(room.spec.name, ticket.priority, ticket.waited_ns)
            if room.spec.shorten_to is not None:
                ticket.shorten_to = room.spec.shorten_to
                ticket.degraded = f"max_tokens={room.spec.shorten_to}"
                self._ledger.degraded(room.spec.name, "max_tokens")
            self._told.append((ticket, None))

    def _run(self, room: Room, ticket: Ticket, at_ns: int) -> None:
        ticket.state = RUNNING
        self._cells[self._table.at(self._table.running + room.slot, self._worker)] += 1
        if room.is_bounded:
            room.turns.charge(ticket)

    def _turn_away(self, room: Room, ticket: Ticket, reason: str, message: str) -> None:
        """Refuse one that waited."""
        self._unqueue(room, ticket)
        self._release(ticket, gives_back=True)
        entries = self._table.total(self._table.waiting + room.slot)
        refused = refusal.overloaded(reason, message, _retry_ns(room, entries))
        self._told.append((ticket, self._ledger.limited(refused, ticket.key.name, ticket.priority)))

    def _unqueue(self, room: Room, ticket: Ticket) -> None:
        table, cells = self._table, self._cells
        room.line.remove(ticket)
        cells[table.at(table.waiting + room.slot, self._worker)] -= 1
        cells[table.at(table.waiting_bytes + room.slot, self._worker)] -= ticket.body_bytes
        self.waiting -= 1
        room.turns.publish()

    def _take(self, ticket: Ticket, at_ns: int) -> None:
        self._cells[ticket.key.held_at] += 1
        self._cells[self._everyone.held_at] += 1
        limits.take(ticket.key, self._everyone, ticket.prompt_tokens, at_ns)

    def _release(self, ticket: Ticket, *, gives_back: bool) -> None:
        ticket.state = ENDED
        self._cells[ticket.key.held_at] -= 1
        self._cells[self._everyone.held_at] -= 1
        if gives_back:
            limits.give(ticket.key, self._everyone, ticket.prompt_tokens)

    def _stand(self, ticket: Ticket) -> None:
        if ticket.seat != NO_SEAT:
            self._cells[self._table.at(self._table.seats + ticket.seat, self._worker)] -= 1
            ticket.seat = NO_SEAT

    # Outside the lock

    def _tell(self) -> None:
        """Call back those whose turn came or who are refused.  What they do then may lead here again."""
        rings, self._rings = self._rings, set()
        for worker in rings:
            self._bell.ring(worker)
        if self._telling:
            return
        self._telling = True
        try:
            while self._told:
                ticket, refused = self._told.popleft()
                if refused is not None or ticket.state is RUNNING:
                    ticket.on_turn(ticket, refused)
        finally:
            self._telling = False


class _NoFleet:
    """What is left of a fleet that was taken out."""

    engines: Sequence[Engine] = ()


def _retry_ns(room: Room, before: int) -> int:
    """How long those before it will take, as far as the last turns tell; a minute at most."""
    return min(_MOST_RETRY_NS, room.line.turn_gap_ns * before)
