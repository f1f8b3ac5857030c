"""A gateway's admission without a gateway: workers that share one table, a clock that is set by hand."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.admission.admit import Admission
from gateway.admission.keys import Key, hashed
from gateway.admission.refusal import Refused
from gateway.admission.table import Table
from gateway.admission.ticket import OnTurn, Ticket
from gateway.spec import AdmissionSpec, EngineSpec, KeySpec, RoomSpec

SECOND = 1_000_000_000
EVERYONE = "everyone"


@dataclass
class FakeEngine:
    """An engine as admission sees it."""

    id: int
    spec: EngineSpec
    up: bool = True


@dataclass
class FakeFleet:
    """A fleet as admission sees it."""

    engines: list[FakeEngine]


@dataclass
class Bell:
    """Remembers whom it rang."""

    rung: list[int] = field(default_factory=list)
    waited: int = 0

    def ring(self, worker: int) -> None:
        self.rung.append(worker)

    def waits(self) -> None:
        self.waited += 1


@dataclass
class Told:
    """What `on_turn` said, in order."""

    turns: list[tuple[Ticket, Refused | None]] = field(default_factory=list)

    def __call__(self, ticket: Ticket, refused: Refused | None) -> None:
        self.turns.append((ticket, refused))

    @property
    def running(self) -> list[Ticket]:
        return [ticket for ticket, refused in self.turns if refused is None]

    @property
    def refused(self) -> list[str]:
        return [refused.reason for _ticket, refused in self.turns if refused is not None]


def key(name: str, slot: int, **limits: object) -> KeySpec:
    """A key whose text is "sl-" and its name."""
    return KeySpec(name, slot, hashed(f"sl-{name}"), **limits)  # type: ignore[arg-type]


def spec(
    keys: Sequence[KeySpec] = (KeySpec("anonymous", 0),),
    rooms: Sequence[RoomSpec] = (RoomSpec("m"),),
    everyone: Mapping[str, object] | None = None,
    **more: object,
) -> AdmissionSpec:
    whole = KeySpec(EVERYONE, -1, **(everyone or {}))  # type: ignore[arg-type]
    placed = tuple(replace(room, slot=at) for at, room in enumerate(rooms))
    return AdmissionSpec(tuple(keys), whole, placed, **more)  # type: ignore[arg-type]


class Stage:
    """Workers over one table."""

    def __init__(self, told: AdmissionSpec, path: Path, workers: int, caps: Sequence[int | None]) -> None:
        self.spec = told
        self.path = path
        self.now_ns = 1_000 * SECOND
        self.fleets: dict[str | None, FakeFleet] = {}
        for fleet, room in enumerate(told.rooms):
            ids = range(fleet * len(caps), (fleet + 1) * len(caps))
            specs = [
                EngineSpec(id, f"http://e{id}", concurrency=most) for id, most in zip(ids, caps, strict=True)
            ]
            self.fleets[room.model] = FakeFleet([FakeEngine(spec.id, spec) for spec in specs])
        rooms = len(told.rooms)
        self.table = Table.create(path, workers, rooms + 1, len(caps) * rooms, len(told.keys) + 2)
        self.tables = [Table.open(path) for _ in range(workers)]
        self.bells = [Bell() for _ in range(workers)]
        self.counts: list[dict[tuple[str, ...], int]] = [{} for _ in range(workers)]
        self.workers = [self.start(worker) for worker in range(workers)]

    def start(self, worker: int) -> Admission:
        table, bell, counts = self.tables[worker], self.bells[worker], self.counts[worker]
        return Admission(self.spec, table, worker, self.fleets, bell, counts)

    def known(self, name: str | None, worker: int = 0) -> Key:
        found = self.workers[worker].identify(b"" if name is None else f"Bearer sl-{name}".encode())
        assert found is not None
        return found

    def ask(
        self, told: OnTurn, name: str | None = None, *, worker: int = 0, fleet: str | None = "m",
        tokens: int = 0, body_bytes: int = 100, priority: bytes = b"", may_wait: bool = True,
    ) -> Ticket | Refused:  # fmt: skip
        return self.workers[worker].ask(
            self.known(name, worker),
            fleet,
            prompt_bytes=tokens * 4,
            body_bytes=body_bytes,
            priority=priority,
            at_ns=self.now_ns,
            on_turn=told,
            may_wait=may_wait,
        )

    def admitted(self, told: OnTurn, name: str | None = None, **how: object) -> Ticket:
        ticket = self.ask(told, name, **how)  # type: ignore[arg-type]
        assert isinstance(ticket, Ticket), ticket
        return ticket

    def reason(self, told: OnTurn, name: str | None = None, **how: object) -> str:
        refused = self.ask(told, name, **how)  # type: ignore[arg-type]
        assert isinstance(refused, Refused), refused
        return refused.reason

    def later(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)

    def poll(self) -> None:
        for worker in self.workers:
            worker.poll(self.now_ns)

    def leases(self) -> list[int]:
        return [held for worker in range(len(self.workers)) for held in self.table.leases(worker)]


@contextmanager
def stage(
    told: AdmissionSpec, *, workers: int = 1, caps: Sequence[int | None] = (None, None)
) -> Iterator[Stage]:
    with TemporaryDirectory() as folder:
        made = Stage(told, Path(folder) / "admission.bin", workers, caps)
        try:
            yield made
        finally:
            for table in (made.table, *made.tables):
                table.close()
