"""Where connections are accepted, and what is said when they cannot be."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clients.listen import CannotListenError, listen, shown, split


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:0", ("::1", 0)),
        (":65535", ("", 65535)),
        ("a.b:1", ("a.b", 1)),
    ],
)
def test_an_address_is_taken_apart(address: str, parts: tuple[str, int]) -> None:
    assert split(address) == parts


@given(st.from_regex(r"[a-z.\[\]:]*", fullmatch=True), st.text("0123456789x-", max_size=6))
def test_what_is_no_address_is_refused_in_words(host: str, port: str) -> None:
    good_port = port.isdigit() and int(port) <= 65535
    good_host = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if good_port and good_host:
        assert split(f"{host}:{port}")[1] == int(port)
    else:
        with pytest.raises(CannotListenError, match=r"host:port|brackets"):
            split(f"{host}:{port}")


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    (ours,) = listen("127.0.0.1:0")
    with ours, pytest.raises(CannotListenError, match=r"is taken: stop the process .* or choose another"):
        listen(shown(ours))


def test_what_is_listened_on_is_shown_as_it_is_typed_and_takes_connections() -> None:
    (bound,) = listen("127.0.0.1:0")
    with bound, socket.create_connection(split(shown(bound))):
        assert not bound.getblocking()


def test_an_unknown_host_and_a_foreign_address_are_told_apart_from_a_taken_port() -> None:
    with pytest.raises(CannotListenError, match=r"not known here|no address of this machine"):
        listen("no-such-host.invalid:0")
    with pytest.raises(CannotListenError, match="no address of this machine"):
        listen("192.0.2.1:0")


def test_ipv6_is_shown_in_brackets() -> None:
    try:
        (bound,) = listen("[::1]:0")
    except CannotListenError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with bound:
        assert shown(bound).startswith("[::1]:")
