"""A worker's admission over its life: opened when limits come, renewed, rung over real sockets, closed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.desk import Desk, create_table
from gateway.admission.refusal import Refused
from gateway.admission.slots import NoSlotLeftError, Slots
from gateway.admission.table import Table
from gateway.admission.ticket import Ticket
from gateway.durations import Durations
from gateway.spec import AdmissionSpec, RoomSpec
from tests.admission.staging import FakeFleet, Told, spec

ONE = spec(rooms=[RoomSpec("m", concurrency=1)])
FLEETS: dict[str | None, FakeFleet] = {"m": FakeFleet([])}


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = create_table(tmp_path, workers=2, fleets=1, engines=1, keys=1)
    yield made
    made.close()


def desk(folder: Path, worker: int) -> Desk:
    return Desk(asyncio.get_running_loop(), folder, worker, {})


def ask(desk_: Desk, told: object, told_spec: AdmissionSpec = ONE) -> Ticket:
    admission = desk_.renew(told_spec, FLEETS)
    assert admission is not None
    key = admission.identify(b"")
    assert key is not None
    ticket = admission.ask(
        key, "m", prompt_bytes=0, body_bytes=0, priority=b"", at_ns=monotonic_ns(), on_turn=told  # type: ignore[arg-type]
    )  # fmt: skip
    assert isinstance(ticket, Ticket)
    return ticket


def test_without_limits_there_is_nothing_to_ask_and_nothing_open(tmp_path: Path) -> None:
    async def scene() -> None:
        made = desk(tmp_path, 0)
        assert made.renew(None, FLEETS) is None
        made.report({}, {}, {})
        made.close()

    asyncio.run(scene())
    assert list(tmp_path.iterdir()) == []


def test_a_turn_goes_from_one_worker_to_another(tmp_path: Path, table: Table) -> None:
    async def scene() -> None:
        ours, theirs = desk(tmp_path, 0), desk(tmp_path, 1)
        turned = asyncio.Event()
        runs = ask(ours, Told())
        waits = ask(theirs, lambda _ticket, _refused: turned.set())
        assert waits.waits
        runs.done(None, monotonic_ns())
        await asyncio.wait_for(turned.wait(), 30)
        assert not waits.waits
        counts: dict[tuple[str, ...], int] = {}
        waited: dict[tuple[str, ...], Durations] = {}
        gauges: dict[tuple[str, ...], float] = {}
        theirs.report(counts, waited, gauges)
        assert waited["queue_wait", "m", "normal"].n == 1
        assert gauges[("key_inflight", "anonymous")] == 1
        waits.done(None, monotonic_ns())
        assert not any(table.leases(0) + table.leases(1))
        ours.close()
        theirs.close()

    asyncio.run(scene())


def test_who_waits_when_limits_are_taken_away_is_let_through(tmp_path: Path, table: Table) -> None:
    async def scene() -> None:
        made = desk(tmp_path, 0)
        told: list[Refused | None] = []
        turned = asyncio.Event()
        runs = ask(made, Told())

        def on_turn(_ticket: Ticket, refused: Refused | None) -> None:
            told.append(refused)
            turned.set()

        waits = ask(made, on_turn)
        assert made.renew(None, FLEETS) is None
        await asyncio.wait_for(turned.wait(), 30)
        assert told == [None]
        runs.done(None, monotonic_ns())
        waits.done(None, monotonic_ns())
        assert not any(table.leases(0))
        ask(made, Told()).done(None, monotonic_ns())  # and limits may come again
        made.close()

    asyncio.run(scene())


def test_a_worker_that_starts_again_finds_the_table_as_it_is(tmp_path: Path, table: Table) -> None:
    async def scene() -> None:
        dead = desk(tmp_path, 0)
        ask(dead, Told())
        dead.close()  # as by the kernel: nothing was given back
        assert any(table.leases(0))
        table.zero(0)
        again = desk(tmp_path, 0)
        assert not ask(again, Told()).waits
        again.close()

    asyncio.run(scene())


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=4), max_size=12), st.data())
def test_a_name_keeps_its_slot_and_no_two_share_one(rounds: list[list[str]], data: st.DataObject) -> None:
    busy: set[int] = set()
    slots: Slots[str] = Slots(6, lambda slot: slot not in busy)
    last: dict[str, int] = {}
    for names in rounds:
        busy = data.draw(st.sets(st.sampled_from(sorted(last.values())))) if last else set()
        try:
            now = slots.of(names)
        except NoSlotLeftError:
            continue
        assert set(now) == set(names)
        assert len(set(now.values())) == len(now)
        assert all(0 <= slot < 6 for slot in now.values())
        for name, slot in now.items():
            assert slot == last.get(name, slot)
            assert name in last or slot not in busy or slot not in last.values()
        last = now
