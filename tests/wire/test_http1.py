"""Requests and answers read from bytes that may be cut anywhere, without a socket."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.http1 import Body, End, Event, Malformed, RequestHead, RequestReader, request_bytes
from wire.response import MalformedAnswer, ResponseReader

TWO = (
    b"POST /v1/a?b=%2F HTTP/1.1\r\nHost: x\r\nX-Case: Kept\r\nx-twice: 1\r\nX-Twice: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nTrailer: dropped\r\n\r\n"
    b"GET /next HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
)


def merged(events: list[Event]) -> list[Event]:
    """Neighbouring body pieces joined: where they are cut is the network's choice."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, Body) and out and isinstance(last := out[-1], Body):
            out[-1] = Body(last.piece + event.piece)
        else:
            out.append(event)
    return out


def fed(data: bytes, cuts: list[int], limit: int = 64 << 10) -> list[Event]:
    reader = RequestReader(limit)
    events: list[Event] = []
    at = 0
    for cut in [*sorted(set(cuts)), len(data)]:
        events += reader.feed(data[at:cut])
        at = max(at, cut)
    return merged(events)


@given(st.lists(st.integers(0, len(TWO)), max_size=8))
def test_where_requests_are_cut_does_not_matter(cuts: list[int]) -> None:
    first, body, end, second, end_again = fed(TWO, cuts)
    assert isinstance(first, RequestHead) and first.chunked and first.content_length is None
    assert (first.method, first.target) == (b"POST", b"/v1/a?b=%2F")
    assert (b"X-Case", b"Kept") in first.headers
    assert [name for name, _ in first.headers if name.lower() == b"x-twice"] == [b"x-twice", b"X-Twice"]
    assert body == Body(b"abcde") and end == end_again == End()
    assert isinstance(second, RequestHead) and second.expects_continue and not second.keep_alive


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_reader_and_nothing_follows_a_malformed(data: bytes) -> None:
    reader = RequestReader()
    events = reader.feed(data) + reader.feed(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    malformed = [at for at, event in enumerate(events) if isinstance(event, Malformed)]
    assert malformed in ([], [len(events) - 1])


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(request_: bytes, status: int) -> None:
    events = RequestReader().feed(request_)
    assert [event.status for event in events if isinstance(event, Malformed)] == [status]
    assert not any(isinstance(event, RequestHead) for event in events)


@pytest.mark.parametrize("step", [1, 7, 1000, 100_000])
def test_a_head_without_end_is_refused_at_its_limit(step: int) -> None:
    reader = RequestReader(10_000)
    endless = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40_000
    seen: list[Event] = []
    for at in range(0, len(endless), step):
        seen += reader.feed(endless[at : at + step])
    assert [event.status for event in seen if isinstance(event, Malformed)] == [431]


@pytest.mark.parametrize("after_the_body", [b"0\r\nX: ", b"1;x="], ids=["trailer", "chunk extension"])
def test_what_follows_or_frames_the_body_is_bounded_too(after_the_body: bytes) -> None:
    chunked = b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader = RequestReader(10_000)
    reader.feed(b"POST /" + chunked + after_the_body)
    seen = [event for _ in range(20) for event in reader.feed(b"a" * 1000)]
    assert [event.status for event in seen if isinstance(event, Malformed)] == [431]
    answers = ResponseReader(10_000)
    answers.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + after_the_body)
    with pytest.raises(MalformedAnswer, match="too large"):
        all(answers.feed(b"a" * 1000) == b"" for _ in range(20))


SWITCH = b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize("before", [b"", b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 50, 10_000])
def test_what_comes_behind_a_request_for_another_protocol_is_kept_and_not_read(
    before: bytes, step: int
) -> None:
    behind = b"\x82\x05hello\r\n\r\nGET /v1/hidden HTTP/1.1\r\nHost: x\r\n\r\n"
    data = before + SWITCH + behind
    reader, events = RequestReader(), list[Event]()
    for at in range(0, len(data), step):
        events += reader.feed(data[at : at + step])
    heads = [event for event in events if isinstance(event, RequestHead)]
    assert [head.upgrade for head in heads] == [False] * bool(before) + [True]
    assert reader.rest_bytes == len(behind) and reader.take_rest() == behind
    assert reader.rest_bytes == 0 and reader.take_rest() == b""


# What a head says of its connection, and whether it stays: in HTTP/1.1, and in HTTP/1.0.
STAYS = {
    "": (True, False),
    "Connection: keep-alive\r\n": (True, True),
    "Connection: close\r\n": (False, False),
    "Connection: keep-alive, close\r\n": (False, False),
    "Connection: close, keep-alive\r\n": (False, False),
    "connection: Keep-Alive\r\nCONNECTION: x ,\tClose \r\n": (False, False),
    "Connection: x, KEEP-ALIVE\r\n": (True, True),
    "Connection: closed\r\n": (True, False),
    "X-Connection: close\r\n": (True, False),
}


@pytest.mark.parametrize("lines", STAYS)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_whether_a_connection_stays_is_what_both_heads_say(version: str, lines: str) -> None:
    """Of requests with a body and without, of answers of every framing and of none."""
    expected = STAYS[lines][version == "1.0"]
    for body in ("\r\n", "Content-Length: 0\r\n\r\n", "Content-Length: 2\r\n\r\nhi"):
        (head, *_) = RequestReader().feed(f"POST / HTTP/{version}\r\nHost: x\r\n{lines}{body}".encode())
        assert isinstance(head, RequestHead) and head.keep_alive is expected, body
    framings = ["Content-Length: 0\r\n\r\n", "Content-Length: 2\r\n\r\nhi"]
    framings += ["Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] if version == "1.1" else []
    for status, body in [("200 OK", one) for one in framings] + [("204 No", "\r\n"), ("304 No", "\r\n")]:
        reader = ResponseReader()
        reader.feed(f"HTTP/{version} {status}\r\n{lines}{body}".encode())
        assert reader.complete and reader.head is not None
        assert reader.head.keep_alive is expected, (status, body)


@pytest.mark.parametrize("step", [1, 10, 1000])
def test_an_offer_of_h2c_is_passed_over_and_the_request_read(step: int) -> None:
    """Java's client makes it with each first request; httptools would take the body for another protocol."""
    offer = b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
    for framed in (
        b"Content-Length: 3\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"3\r\nabc\r\n0\r\n\r\n",
    ):
        data = 2 * (b"POST /a HTTP/1.1\r\n" + offer + framed)
        reader, events = RequestReader(), list[Event]()
        for at in range(0, len(data), step):
            events += reader.feed(data[at : at + step])
        heads = [event for event in events if isinstance(event, RequestHead)]
        assert [(head.target, head.upgrade) for head in heads] == [(b"/a", False)] * 2
        assert b"".join(event.piece for event in events if isinstance(event, Body)) == b"abcabc"
        assert events.count(End()) == 2 and not any(isinstance(event, Malformed) for event in events)


@pytest.mark.parametrize("step", [1, 10, 1000])
def test_http_1_0_stays_so_whatever_protocol_it_offers(step: int) -> None:
    """What it offers is passed over (RFC 9110 7.8): the connection ends behind it, and no Host is needed."""
    for offer in (b"h2c", b"websocket"):
        for lines, stays in ((b"", False), (b"Connection: keep-alive\r\n", True)):
            data = b"POST /a HTTP/1.0\r\n%bUpgrade: %b\r\nContent-Length: 3\r\n\r\nabc" % (lines, offer)
            (head, body, end) = fed(data, list(range(0, len(data), step)))
            assert isinstance(head, RequestHead) and (body, end) == (Body(b"abc"), End())
            assert (head.version, head.keep_alive, head.upgrade) == ("1.0", stays, False)


TARGETS = {
    b"http://gw/v1/models": b"/v1/models",
    b"HTTPS://gw.example:8443/v1/models?a=http://b/c": b"/v1/models?a=http://b/c",
    b"http://[::1]:8080/v1/x": b"/v1/x",
    b"http://gw:/v1//x": b"/v1//x",
    b"http://gw//pause": b"//pause",
    b"http://gw": b"/",
    b"http://gw?x=/pause": b"/?x=/pause",
    # Nobody's URL, or one that readers disagree about: it stays, and is no path.
    b"http://user@gw/v1/models": b"http://user@gw/v1/models",
    b"http:///v1/models": b"http:///v1/models",
    b"ftp://gw/v1/models": b"ftp://gw/v1/models",
}


@pytest.mark.parametrize("step", [1, 1000])
def test_a_target_in_absolute_form_is_its_path_and_what_host_says_is_no_matter(step: int) -> None:
    for target, path in TARGETS.items():
        for method in (b"GET", b"POST"):
            data = b"%b %b HTTP/1.1\r\nHost: another\r\nContent-Length: 2\r\n\r\nhi" % (method, target)
            read = fed(2 * data, list(range(0, 2 * len(data), step)))
            assert [one.target for one in read if isinstance(one, RequestHead)] == [path, path], target
    (asterisk, _end) = fed(b"OPTIONS http://gw HTTP/1.1\r\nHost: gw\r\n\r\n", [])
    assert isinstance(asterisk, RequestHead) and asterisk.target == b"*"
    (refused,) = fed(b"GET http://gw/v1/models HTTP/1.1\r\n\r\n", [])
    assert isinstance(refused, Malformed), "HTTP/1.1 needs a Host all the same"


def test_empty_lines_between_requests_begin_none() -> None:
    """However many there are in a connection's life, and whether its heads are known by then or not."""
    reader = RequestReader(200)
    request = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    head = reader.feed(request)[0]
    assert isinstance(head, RequestHead)
    for turn in range(600):
        for line in (b"\r\n", b"\r", b"\n"):
            assert reader.feed(line) == [] and not reader.is_halfway, turn
        if turn < 300:
            assert reader.whole(request, head) == b"abc"
        elif turn < 450:
            assert len(reader.feed(request)) == 3
        else:
            assert reader.feed(request[:9]) == [] and reader.is_halfway
            assert len(reader.feed(request[9:] + b"\r\n")) == 3 and not reader.is_halfway


def answer(
    data: bytes, cuts: list[int], *, eof: bool = False, bodiless: bool = False
) -> tuple[int, bytes, bool]:
    reader = ResponseReader()
    reader.begin(bodiless=bodiless)
    body, at = b"", 0
    for cut in [*sorted(set(cuts)), len(data)]:
        body += reader.feed(data[at:cut])
        at = max(at, cut)
    if eof:
        reader.eof()
    assert reader.head is not None
    return reader.head.status, body, reader.complete


ANSWERS: list[tuple[bytes, bool, bytes]] = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", False, b"hello"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False, b""),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        False,
        b"hello",
    ),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nT: v\r\n\r\n", False, b"x"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", False, b""),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", False, b"a"),
    (b"HTTP/1.0 200 OK\r\n\r\nto the end", True, b"to the end"),
]


@pytest.mark.parametrize(("data", "eof", "body"), ANSWERS)
def test_where_answers_are_cut_does_not_matter(data: bytes, eof: bool, body: bytes) -> None:
    for cut in range(len(data) + 1):
        status, got, complete = answer(data, [cut], eof=eof)
        assert (got, complete) == (body, True) and status in (200, 204)


@pytest.mark.parametrize(("data", "eof", "body"), ANSWERS[:4])
def test_an_answer_cut_short_is_never_complete(data: bytes, eof: bool, body: bytes) -> None:
    end_of_head = data.index(b"\r\n\r\n") + 4
    for cut in range(end_of_head, len(data)):
        assert not answer(data[:cut], [], eof=True)[2]


def test_a_head_request_has_no_body_whatever_its_length() -> None:
    assert answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", [], bodiless=True) == (200, b"", True)


@pytest.mark.parametrize("tail", [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HT"])
@pytest.mark.parametrize("data", [ANSWERS[0][0], ANSWERS[2][0]])
def test_bytes_beyond_the_end_are_surplus_and_no_body(data: bytes, tail: bytes) -> None:
    reader = ResponseReader()
    assert reader.feed(data + tail) == b"hello"
    assert reader.complete and reader.surplus


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"garbage of an engine\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_what_is_no_answer_is_said_to_be_malformed(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        ResponseReader().feed(data)


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_of_an_engine_crash_the_reader(data: bytes, after_a_head: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if after_a_head else b""
    reader = ResponseReader()
    feed: Callable[[bytes], bytes] = reader.feed
    try:
        feed(head + data)
    except MalformedAnswer:
        return
    assert isinstance(reader.eof(), bool)


def test_a_header_cannot_break_out_of_its_line() -> None:
    made = request_bytes("POST", "/v1/x", [("host", "h")], b"{}")
    assert made == b"POST /v1/x HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
    for value in ("a\r\nX: 1", "a\nb", "a\0"):
        with pytest.raises(ValueError, match="line break"):
            request_bytes("GET", "/", [("host", value)])
