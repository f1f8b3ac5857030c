"""The channel between supervisor and child: whole messages of any size, never waited for, an end told."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.processes.channel import Channel, Closed
from tests.procfs import open_files

MESSAGES = st.lists(
    st.tuples(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.binary(max_size=5000)), max_size=20
)


@given(MESSAGES)
@settings(deadline=None)
def test_what_is_sent_comes_whole_and_in_order(messages: list[tuple[str, bytes]]) -> None:
    one, other = Channel.pair()
    for kind, body in messages:
        assert one.send(kind, body)
    assert list(other.receive()) == messages
    one.close()
    with pytest.raises(Closed):
        list(other.receive())
    other.close()


def test_a_message_of_many_megabytes_does_not_wait_for_its_reader() -> None:
    one, other = Channel.pair()
    body = os.urandom(1 << 20) * 32
    assert one.send("spec", body)
    assert list(other.receive()) == [("spec", body)]
    one.close()
    other.close()


def test_a_reader_that_does_not_read_is_told_and_nothing_leaks() -> None:
    before = open_files()
    one, other = Channel.pair()
    sent = 0
    while one.send("again", b"x"):
        sent += 1
        assert sent < 100_000
    assert sent > 4
    assert len(list(other.receive())) == sent
    assert one.send("again")  # and goes on once it reads
    other.close()
    assert not one.send("again")
    one.close()
    assert not open_files() - before
