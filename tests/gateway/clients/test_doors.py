"""Who may come in: counts that come back to nothing, and shares of the descriptors that add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clients.doors import TOO_MANY, TOO_MANY_OF_ONE, Doors, shares

PEERS = st.sampled_from(
    [
        b"10.0.0.1",
        b"10.0.0.2",
        b"::ffff:10.0.0.1",
        b"2001:db8::1",
        b"2001:db8::2",
        b"fe80::1%eth0",
        b"unknown",
    ]
)


@given(st.integers(1, 1 << 22), st.integers(1, 1_000_000))
def test_neither_side_can_take_what_the_other_needs(descriptors: int, connections: int) -> None:
    clients, engines = shares(descriptors, connections)
    assert 1 <= clients <= connections and engines >= 1
    if descriptors >= 128:
        assert clients <= engines and clients + engines < descriptors


def test_as_many_as_may_come_in_and_one_more_when_one_has_left() -> None:
    doors = Doors(2)
    assert [doors.enter(b"10.0.0.1") for _ in range(3)] == [None, None, TOO_MANY]
    doors.leave(b"10.0.0.1")
    assert doors.enter(b"10.0.0.2") is None and doors.inside == 2


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (b"10.0.0.1", b"10.0.0.1", b"10.0.0.2"),
        (b"10.0.0.1", b"::ffff:10.0.0.1", b"::ffff:10.0.0.2"),
        (b"2001:db8::1", b"2001:db8::ffff:1", b"2001:db8:0:1::1"),
    ],
)
def test_an_address_is_one_client_however_it_is_written(one: bytes, same: bytes, other: bytes) -> None:
    doors = Doors(10, per_ip=1)
    assert doors.enter(one) is None
    assert doors.enter(same) == TOO_MANY_OF_ONE and doors.enter(other) is None
    doors.leave(same)
    assert doors.enter(one) is None


def test_unless_asked_for_addresses_are_not_counted() -> None:
    doors = Doors(1000)
    assert all(doors.enter(b"10.0.0.1") is None for _ in range(1000))


@given(st.lists(st.tuples(st.booleans(), PEERS), max_size=80), st.integers(1, 9), st.integers(0, 3))
def test_however_they_come_and_go_nothing_is_left_when_all_have_gone(
    steps: list[tuple[bool, bytes]], most: int, per_ip: int
) -> None:
    doors, inside = Doors(most, per_ip), list[bytes]()
    for comes, peer in steps:
        if comes and doors.enter(peer) is None:
            inside.append(peer)
        elif inside and not comes:
            doors.leave(inside.pop())
        assert doors.inside == len(inside) <= most
    for peer in inside:
        doors.leave(peer)
    assert doors.inside == 0 and not doors._by_address


def test_addresses_counted_from_a_reload_on_lose_nobody() -> None:
    doors = Doors(9)
    doors.enter(b"10.0.0.1")
    doors.per_ip = 1
    assert doors.enter(b"10.0.0.1") is None  # the one from before is not known by its address
    doors.leave(b"10.0.0.1")
    doors.leave(b"10.0.0.1")
    assert doors.inside == 0 and not doors._by_address
