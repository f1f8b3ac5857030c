"""No message is read in two ways: what hides a second one is refused, whatever the reads it comes in."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import Engine, Peer, answers, ask, json_answer, post, running
from tests.support_shared import run
from tests.wire.probes import ANSWERS, HIDDEN, HIDDEN_ANSWER, OVERLONG_ANSWERS, REQUESTS
from tests.wire.reading import Refused, Said, answer_or_none, read_all
from wire.http1 import Malformed, RequestReader
from wire.response import MalformedAnswer, ResponseReader

OK = json_answer(b"{}")


def cuts_of(data: bytes) -> list[list[int]]:
    """No cut, every single cut, and a read for each byte."""
    return [[], *([at] for at in range(1, len(data))), list(range(len(data)))]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(name: str) -> None:
    data = REQUESTS[name] + HIDDEN
    for cuts in cuts_of(data):
        said = read_all(data, cuts)
        assert isinstance(said[-1], Refused), (cuts, said)
        assert not any(isinstance(one, Said) and one.line[1] == b"/v1/hidden" for one in said), cuts


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_can_be_read_in_two_ways_is_refused(name: str) -> None:
    data = ANSWERS[name] + HIDDEN_ANSWER
    for cuts in cuts_of(data):
        assert answer_or_none(data, cuts) == "malformed", cuts


@pytest.mark.parametrize("name", OVERLONG_ANSWERS)
def test_bytes_after_an_answer_are_surplus_and_no_body(name: str) -> None:
    data = OVERLONG_ANSWERS[name] + HIDDEN_ANSWER
    for cuts in cuts_of(data):
        read = answer_or_none(data, cuts)
        assert read is not None and not isinstance(read, str), cuts
        assert read.complete and read.surplus and read.body in (b"", b"hello"), cuts


def test_no_probe_shows_an_engine_the_hidden_request() -> None:
    """Over real sockets: the engine parses for itself, and sees only requests that nobody hid."""

    async def go() -> None:
        engine = Engine(answers(OK))
        async with running(engine) as gateway:
            for name, probe in REQUESTS.items():
                answered = await ask(gateway.port, probe + HIDDEN)
                assert answered.status in (200, 400, 431, 501, 505), (name, answered.raw)
                # 200 is for a request that is whole before its connection turns bad: and only for that one.
                assert answered.is_whole, (name, answered.raw)
            assert (await ask(gateway.port, post())).status == 200
            lines = {peer.line for peer in engine.asked}
            assert lines <= {"POST /v1/x HTTP/1.1", "POST /v1/chat/completions HTTP/1.1"}, lines
            assert gateway.inflight() == 0

    run(go())


ADMINISTRATIVE = [
    "http://x/pause", "http://x/v1/../pause", "http://x//pause", "HTTP://x?/../pause", "http://x/v1/%2e%2e/pause",
    "http://u@x/v1/models", "http://x\\/v1/models", "http:///v1/models", "http:/v1/models", "//x/pause",
    "/v1/../pause",
    "/v1/%2e%2e/pause",
    "/v1/..%2fpause", "/v1/x/..;/pause", "/v1/..\\pause", "/v1/%5c..%5cpause", "/v1//../pause",
    "/./pause", "/%70ause", "/pause/", "/pause?x=/v1/chat/completions", "/pause#/v1/chat/completions",
    "/v1/chat/completions#/../../pause", "/v1/x#/pause", "*", "pause", "/v1/%00/../pause",
    "/v1/models/%2e%2e%2f%2e%2e%2fpause", "/v1/models/..%2f..%2fpause", "/v1/load_lora_adapter",
    "/v1//load_lora_adapter", "/v1/load%5flora_adapter", "/v1/load_lora_adapter/",
]  # fmt: skip


def test_no_spelling_of_a_target_reaches_administrative_space() -> None:
    async def go() -> None:
        engine = Engine(answers(OK))
        async with running(engine) as gateway:
            for target in ADMINISTRATIVE:
                answered = await ask(gateway.port, post(b"{}", target))
                assert answered.status in (400, 404), (target, answered.raw)
            assert engine.asked == []

    run(go())


@pytest.mark.parametrize("name", ANSWERS)
def test_an_engines_ambiguous_answer_is_not_passed_on_and_its_connection_not_used_again(name: str) -> None:
    async def go() -> None:
        async def script(peer: Peer) -> None:
            first = len(engine.asked) == 1
            await peer.send(ANSWERS[name] + HIDDEN_ANSWER if first else OK)

        engine = Engine(script)
        async with running(engine) as gateway:
            first = await ask(gateway.port, post())
            assert first.status == 502 or not first.is_whole, first.raw
            second = await ask(gateway.port, post())
            assert b"hidden" not in first.raw + second.raw
            assert second.text == b"{}"
            assert gateway.inflight() == 0

    run(go())


@pytest.mark.parametrize("name", OVERLONG_ANSWERS)
def test_what_an_engine_sends_beyond_its_answer_answers_nobody(name: str) -> None:
    async def go() -> None:
        async def script(peer: Peer) -> None:
            await peer.send(OVERLONG_ANSWERS[name] + HIDDEN_ANSWER if len(engine.asked) == 1 else OK)

        engine = Engine(script)
        async with running(engine) as gateway:
            first, second = await ask(gateway.port, post()), await ask(gateway.port, post())
            assert (first.is_whole or first.status == 304) and b"hidden" not in first.raw + second.raw
            assert second.text == b"{}"

    run(go())


def test_an_answer_without_a_request_is_nobodys() -> None:
    """Sent on the idle connection before the next request: that connection is out of step and given up."""

    async def go() -> None:
        late = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(OK)
            if len(engine.asked) == 1:
                await late.wait()
                await peer.send(HIDDEN_ANSWER)

        engine = Engine(script)
        async with running(engine) as gateway:
            assert (await ask(gateway.port, post())).text == b"{}"
            late.set()
            for _ in range(5):
                assert (await ask(gateway.port, post())).text == b"{}"

    run(go())


# The laws that a faster reader must keep

_NAMES = [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"X-A", b"Expect", b"Upgrade"]
_VALUES = [
    b"x", b"0", b"3", b"5", b"+3", b"3, 3", b"chunked", b"gzip", b"close", b"keep-alive", b"100-continue",
    b"h2c", b"",
]  # fmt: skip
_LINES = [
    b"POST /v1/x HTTP/1.1",
    b"GET /v1/y?z HTTP/1.1",
    b"POST /v1/x HTTP/1.0",
    b"get / HTTP/1.1",
    b"HEAD / HTTP/1.1",
]
_BODIES = [
    b"",
    b"abc",
    b"hello",
    b"3\r\nabc\r\n0\r\n\r\n",
    b"0\r\nT: 1\r\n\r\n",
    b"5;x=y\r\nhello\r\n0\r\n\r\n",
    b"\r\n",
]


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    """Something near a request: right in most of its parts."""
    end = draw(st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r"]))
    fields = [b"Host: h"] if draw(st.integers(0, 9)) else []
    fields += draw(
        st.lists(
            st.builds(
                lambda name, colon, value: name + colon + value,
                st.sampled_from(_NAMES),
                st.sampled_from([b": "] * 8 + [b":", b" : ", b":\t"]),
                st.sampled_from(_VALUES),
            ),
            max_size=3,
        )
    )
    return end.join([draw(st.sampled_from(_LINES)), *fields, b"", b""]) + draw(st.sampled_from(_BODIES))


_STREAMS = st.one_of(
    st.lists(_requests(), min_size=1, max_size=4).map(b"".join),
    st.sampled_from([*REQUESTS.values()]).map(lambda probe: probe + HIDDEN),
    st.binary(max_size=200),
)
_CUTS = st.lists(st.integers(0, 400), max_size=6)


@given(_STREAMS, _CUTS)
def test_requests_are_read_the_same_wherever_they_are_cut(data: bytes, cuts: list[int]) -> None:
    assert read_all(data, cuts) == read_all(data, range(len(data)))


@given(_requests(), st.lists(_requests(), max_size=3), st.integers(1, 3), _CUTS)
def test_what_was_read_before_changes_nothing(
    data: bytes, others: list[bytes], times: int, cuts: list[int]
) -> None:
    """On other connections, and on this one: nothing learned from a head may show in another's reading."""
    expected = read_all(data, range(len(data)))
    for other in [*others, data, data.replace(b": 3", b": 5"), data.replace(b": 5", b": 3")] * times:
        read_all(other)
    assert read_all(data, cuts) == expected
    again = read_all(data + data, cuts)
    assert again == read_all(data + data, range(2 * len(data)))


def test_only_the_length_that_a_head_states_frames_its_body() -> None:
    """Heads alike but for their length, in one stream: what a reader that remembers heads would mix up."""
    sizes = [5, 0, 12, 5, 99, 1, 5, 0]
    data = b"".join(
        b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % n + b"b" * n for n in sizes
    )
    for step in (len(data), 1, 7, 64):
        cuts = range(0, len(data), step)
        said = read_all(data, cuts)
        assert [len(one.body) for one in said if isinstance(one, Said) and one.whole] == sizes
        assert [one.framing for one in said if isinstance(one, Said)] == [(n, False) for n in sizes]


@pytest.mark.parametrize(
    "other", [b"+5", b"05 5", b"5,5", b"0x5", b" 5\r\nContent-Length: 5", b"5\r\nTransfer-Encoding: chunked"]
)
def test_a_head_known_well_does_not_lend_its_good_name(other: bytes) -> None:
    """The same head a hundred times, then once with a length that is none."""
    good = b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
    bad = good.replace(b"h: 5", b"h: " + other)
    assert all(isinstance(one, Said) and one.whole for one in read_all(good * 100))
    for cuts in cuts_of(bad):
        assert read_all(bad + HIDDEN, cuts) == [Refused(400)]
    assert read_all(good * 3 + bad + HIDDEN)[3:] == [Refused(400)]


_ANSWERS = st.one_of(
    st.sampled_from([*ANSWERS.values(), *OVERLONG_ANSWERS.values()]).map(lambda probe: probe + HIDDEN_ANSWER),
    st.binary(max_size=200),
    st.binary(max_size=100).map(lambda tail: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + tail),
    st.binary(max_size=100).map(lambda tail: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + tail),
    st.binary(max_size=60).map(lambda tail: b"HTTP/1." + tail + b"\r\n\r\n"),
)


@given(_ANSWERS, _CUTS, st.booleans())
def test_answers_are_read_the_same_wherever_they_are_cut(
    data: bytes, cuts: list[int], bodiless: bool
) -> None:
    assert answer_or_none(data, cuts, bodiless=bodiless) == answer_or_none(
        data, range(len(data)), bodiless=bodiless
    )


ENDLESS_REQUESTS: dict[str, tuple[bytes, bytes]] = {
    "method": (b"", b"G"),
    "target": (b"GET /", b"a"),
    "blanks after the method": (b"GET ", b" "),
    "name": (b"GET / HTTP/1.1\r\n", b"a"),
    "value": (b"GET / HTTP/1.1\r\nHost: ", b"a"),
    "blanks before a value": (b"GET / HTTP/1.1\r\nHost:", b" "),
    "fields": (b"GET / HTTP/1.1\r\n", b"A: b\r\n"),
    "empty lines before it": (b"", b"\r\n"),
    "chunk's size": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "chunk's extension": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "trailers": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n"),
}
ENDLESS_ANSWERS: dict[str, tuple[bytes, bytes]] = {
    "reason": (b"HTTP/1.1 200 ", b"a"),
    "name": (b"HTTP/1.1 200 OK\r\n", b"a"),
    "value": (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "fields": (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n"),
    "chunk's size": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "chunk's extension": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n"),
}


@pytest.mark.parametrize("name", ENDLESS_REQUESTS)
@pytest.mark.parametrize("step", [1, 1000])
def test_no_part_of_a_request_goes_on_for_ever(name: str, step: int) -> None:
    start, unit = ENDLESS_REQUESTS[name]
    reader = RequestReader(4096)
    reader.feed(start)
    fed, endless = 0, unit * 1000
    while fed < 20_000:
        for event in reader.feed(endless[:step] if step > 1 else unit):
            assert isinstance(event, Malformed)
            return
        fed += step * len(unit) if step == 1 else step
    raise AssertionError("it is still read")


@pytest.mark.parametrize("name", ENDLESS_ANSWERS)
@pytest.mark.parametrize("step", [1, 1000])
def test_no_part_of_an_answer_goes_on_for_ever(name: str, step: int) -> None:
    start, unit = ENDLESS_ANSWERS[name]
    reader = ResponseReader(4096)
    assert reader.feed(start) == b""

    def go_on() -> None:
        for _ in range(20_000 // step):
            assert reader.feed((unit * 1000)[:step] if step > 1 else unit) == b""

    with pytest.raises(MalformedAnswer):
        go_on()
