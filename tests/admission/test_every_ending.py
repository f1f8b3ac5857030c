"""Over any course of events in several workers, which may die: bounds hold, and all comes back to zero."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from gateway.admission.refusal import REASONS, Refused
from gateway.admission.ticket import RUNNING, Ticket, Usage
from gateway.spec import RoomSpec
from tests.admission.staging import SECOND, Stage, key, spec

WORKERS, CAPS = 3, (1, 3)
ENGINES = len(CAPS)
KEYS = [
    key("a", 0, concurrency=3, weight=2.0),
    key("b", 1, requests_per_s=2.0, requests_burst=4, priority=0),
    key("c", 2, prompt_tokens_per_s=100.0, prompt_tokens_burst=300, priority=2, concurrency=6),
]
ROOMS = [
    RoomSpec("m", concurrency=3, fallback="n"),
    RoomSpec("n", concurrency=2, shorten_to=8),
    RoomSpec("free"),
]
MODELS = [room.model for room in ROOMS]
ENTRIES, BYTES, WAIT_S, EVERYONE = 5, 900, 4, 12
WORKER = st.integers(0, WORKERS - 1)


class Lives(RuleBasedStateMachine):
    """Every request as the test remembers it, beside what the table says."""

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        told = spec(
            KEYS, ROOMS, {"concurrency": EVERYONE}, queue_entries=ENTRIES, queue_bytes=BYTES,
            queue_wait_s=WAIT_S, trickle=3,
        )  # fmt: skip
        self.gateway = Stage(told, Path(self.folder.name) / "admission.bin", WORKERS, CAPS)
        self.alive: dict[Ticket, int] = {}
        self.called: set[Ticket] = set()

    def on_turn(self, ticket: Ticket, refused: Refused | None) -> None:
        assert ticket in self.alive, "called back after its end"
        assert ticket not in self.called, "called back twice"
        self.called.add(ticket)
        if refused is None:
            assert not ticket.waits
        else:
            assert refused.reason in REASONS and refused.retry_after_s
            del self.alive[ticket]

    @rule(
        target=tickets, worker=WORKER, name=st.sampled_from("abc"), fleet=st.sampled_from(["m", "n", "free"]),
        tokens=st.integers(0, 200), body_bytes=st.integers(0, 400),
        priority=st.sampled_from([b"", b"high", b"normal", b"low"]),
    )  # fmt: skip
    def ask(
        self, worker: int, name: str, fleet: str, tokens: int, body_bytes: int, priority: bytes
    ) -> object:
        got = self.gateway.ask(
            self.on_turn, name, worker=worker, fleet=fleet, tokens=tokens, body_bytes=body_bytes,
            priority=priority,
        )  # fmt: skip
        if isinstance(got, Refused):
            assert got.reason in REASONS and got.retry_after_s
            return multiple()
        self.alive[got] = worker
        return got

    @rule(ticket=tickets, engine=st.integers(0, ENGINES - 1))
    def sit(self, ticket: Ticket, engine: int) -> None:
        if ticket in self.alive and ticket.state == RUNNING:
            ticket.sit(MODELS.index(ticket.fleet) * ENGINES + engine)

    @rule(
        ticket=consumes(tickets), how=st.integers(0, 4), prompt=st.integers(0, 500), output=st.integers(0, 50)
    )
    def end(self, ticket: Ticket, how: int, prompt: int, output: int) -> None:
        if ticket not in self.alive:  # its worker died, or it was refused: too late to matter
            if ticket.state > RUNNING:
                ticket.leave(self.gateway.now_ns)
            return
        del self.alive[ticket]
        if how == 0:
            ticket.done(Usage(prompt, prompt // 2, output), self.gateway.now_ns)
        elif how == 1:
            ticket.done(None, self.gateway.now_ns)
        elif how == 2:
            ticket.failed(self.gateway.now_ns)
        else:
            ticket.leave(self.gateway.now_ns)
        if how == 4:
            ticket.failed(self.gateway.now_ns)

    @rule(ticket=tickets)
    def end_again(self, ticket: Ticket) -> None:
        if ticket.state > RUNNING:
            ticket.done(Usage(100, 0, 100), self.gateway.now_ns)

    @rule(worker=WORKER)
    def die(self, worker: int) -> None:
        self.gateway.workers[worker] = self.gateway.start(worker)  # the old one is never heard of again
        self.gateway.table.zero(worker)
        for ticket in [ticket for ticket, where in self.alive.items() if where == worker]:
            del self.alive[ticket]

    @rule(ms=st.integers(1, 3000))
    def time_goes_on(self, ms: int) -> None:
        self.gateway.now_ns += ms * SECOND // 1000

    @rule()
    def poll(self) -> None:
        self.gateway.poll()

    @invariant()
    def what_is_held_is_what_lives(self) -> None:
        table = self.gateway.table
        for slot, spec_ in enumerate(KEYS):
            held = sum(ticket.key.slot == slot for ticket in self.alive)
            assert table.total(table.inflight + slot) == held
            assert held <= (spec_.concurrency or held)
        assert table.total(table.inflight + table.all_keys) == len(self.alive) <= EVERYONE
        for fleet, room in enumerate(ROOMS):
            here = [ticket for ticket in self.alive if ticket.fleet == room.model]
            waiting = [ticket for ticket in here if ticket.waits]
            running = len(here) - len(waiting)
            assert table.total(table.running + fleet) == running
            assert running <= (room.concurrency or running)
            assert table.total(table.waiting + fleet) == len(waiting) <= ENTRIES
            assert table.total(table.waiting_bytes + fleet) == sum(t.body_bytes for t in waiting) <= BYTES
        for engine in range(ENGINES * len(ROOMS)):
            seated = sum(ticket.seat == engine for ticket in self.alive)
            assert table.total(table.seats + engine) == seated
        assert table.total(table.seats) <= 1
        assert all(held >= 0 for held in self.gateway.leases())

    @invariant()
    def nobody_waits_while_there_is_room(self) -> None:
        """Within the patience and two looks of every worker."""
        if not any(ticket.waits for ticket in self.alive):
            return
        gateway, table = self.gateway, self.gateway.table
        for _ in range(2 * ENTRIES):
            gateway.poll()
            gateway.now_ns += 20_000_000
        for fleet, room in enumerate(ROOMS):
            if any(ticket.fleet == room.model and ticket.waits for ticket in self.alive):
                assert table.total(table.running + fleet) == (room.concurrency or sum(CAPS))

    def teardown(self) -> None:
        gateway = self.gateway
        for ticket in list(self.alive):
            if ticket in self.alive:
                del self.alive[ticket]
                ticket.done(None, gateway.now_ns)
        assert not any(gateway.leases())
        assert [worker.waiting for worker in gateway.workers] == [0] * WORKERS
        gateway.later(3600)
        for worker in range(WORKERS):  # whatever happened, nobody is kept out for ever
            for name in "abc":
                got = gateway.ask(self.on_turn, name, worker=worker, tokens=200)
                assert isinstance(got, Ticket) and not got.waits
                got.failed(gateway.now_ns)
        for table in (gateway.table, *gateway.tables):
            table.close()
        self.folder.cleanup()


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
