"""Addresses: what is taken, how it is written afterwards, and what is refused with which reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import address


@pytest.mark.parametrize(
    ("text", "host", "port", "written"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1:8080"),
        ("0.0.0.0:0", "0.0.0.0", 0, "0.0.0.0:0"),
        ("[::1]:8080", "::1", 8080, "[::1]:8080"),
        ("[0:0:0:0:0:0:0:0]:80", "::", 80, "[::]:80"),
        ("LocalHost:65535", "localhost", 65535, "localhost:65535"),
    ],
)
def test_a_listening_address_is_taken_apart(text: str, host: str, port: int, written: str) -> None:
    read = address.listen(text)
    assert (read.host, read.port, str(read)) == (host, port, written)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("8080", "the port is missing"),
        (":8080", "the host is missing"),
        ("::1:8080", "an IPv6 address goes in brackets"),
        ("[::1]", "an IPv6 address goes in brackets"),
        ("[::1%eth0.1]x:80", "an IPv6 address goes in brackets"),
        ("[127.0.0.1]:80", "no IPv6 address"),
        ("127.0.0.1:", "a number from 0 to 65535"),
        ("127.0.0.1:65536", "a number from 0 to 65535"),
        ("127.0.0.1:-1", "a number from 0 to 65535"),
        ("127.0.0.1:٨٠", "a number from 0 to 65535"),
        ("127.0.0.256:80", "looks like an IPv4 address"),
        ("a b:80", "characters that no host name has"),
        ("http://a:80", "an IPv6 address goes in brackets"),
    ],
)
def test_a_wrong_listening_address_says_why(text: str, reason: str) -> None:
    with pytest.raises(address.BadAddress, match=reason):
        address.listen(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000"),
        ("HTTP://Engine-1.Local:8000/", "http://engine-1.local:8000"),
        ("https://host", "https://host"),
        ("https://host/tenant/a/", "https://host/tenant/a"),
        ("http://[FD00:0::7]:8000", "http://[fd00::7]:8000"),
        ("http://[::1]", "http://[::1]"),
        ("http://vllm_1:8000", "http://vllm_1:8000"),
        ("unix:/run/a.sock", "unix:///run/a.sock"),
        ("unix:///run/a.sock", "unix:///run/a.sock"),
    ],
)
def test_an_engine_url_is_written_one_way(text: str, written: str) -> None:
    assert address.engine_url(text) == written
    assert address.engine_url(written) == written


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must begin with"),
        ("host:8000", "must begin with"),
        ("//host", "must begin with"),
        ("ftp://host", "must begin with"),
        ("http://", "the host is missing"),
        ("http://:8000", "the host is missing"),
        ("http:host", "the host is missing"),
        ("http://host:", "the port after the colon is missing"),
        ("http://host:0", "a number from 1 to 65535"),
        ("http://host:99999", "a number from 1 to 65535"),
        ("http://host:80a", "a number from 1 to 65535"),
        ("http://::1:8000", "goes in brackets"),
        ("http://[::1", "IPv6"),
        ("http://[zz]:1", "IPv6"),
        ("http://u:secret@host", "put it in api_key"),
        ("http://host/v1", "without /v1"),
        ("http://host/v1/", "without /v1"),
        ("http://host?a=1", "without"),
        ("http://host#a", "without"),
        ("http://host/../x", "without .. in"),
        ("http://ho st", "a space or a control character"),
        ("http://host\r\nx: y", "a space or a control character"),
        ("http://-host", "characters that no host name has"),
        ("http://1.2.3", "looks like an IPv4 address"),
        ("unix:run/a.sock", "absolute path"),
        ("unix:///", "absolute path"),
        (f"unix:///{'a' * 120}", "at most 107 bytes"),
    ],
)
def test_a_wrong_engine_url_says_why(text: str, reason: str) -> None:
    with pytest.raises(address.BadAddress, match=reason) as refused:
        address.engine_url(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://h", "http://h:80", True),
        ("https://h", "https://h:443", True),
        ("http://h", "https://h", False),
        ("http://h/a", "http://h/b", False),
        ("http://h:8000", "http://h:8001", False),
        ("unix:///a", "unix:///a", True),
        ("http://localhost:8000", "http://127.0.0.1:8000", True),
        ("http://localhost:8000", "http://h:8000", False),
    ],
)
def test_two_urls_are_the_same_engine(one: str, other: str, same: bool) -> None:
    assert (address.identity(one) == address.identity(other)) is same


@given(st.text(max_size=40) | st.from_regex(r"https?://\S{0,30}", fullmatch=True))
def test_any_text_is_normalised_or_refused(text: str) -> None:
    try:
        written = address.engine_url(text)
    except address.BadAddress:
        return
    assert address.engine_url(written) == written
    assert address.identity(written)


@given(st.text(max_size=30) | st.from_regex(r"\[[0-9a-f:]*\]:[0-9]{1,5}", fullmatch=True))
def test_any_text_is_a_listening_address_or_refused(text: str) -> None:
    try:
        read = address.listen(text)
    except address.BadAddress:
        return
    assert address.listen(str(read)) == read
