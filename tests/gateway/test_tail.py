"""How a stream ended is judged by its bytes: through any cuts, and whatever its length."""

import pytest

from gateway.outcome import Outcome, outcome
from gateway.tail import Tail
from wire.exchange import Ending

TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"tok"},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
LONG = TOKEN * 300


def judged(stream: bytes, step: int) -> Outcome:
    tail = Tail()
    for at in range(0, len(stream), step):
        tail.add(stream[at : at + step])
    return outcome(Ending.COMPLETE, 200, tail)


STEPS = pytest.mark.parametrize("step", [1, 7, 190, 5_000, 70_000])


@STEPS
@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (LONG, Outcome.TRUNCATED),
        (LONG + FINISH, Outcome.COMPLETE),
        (LONG + b"data: [DONE]\n\n", Outcome.COMPLETE),
        (LONG + FINISH + b": ping\n\n" * 100, Outcome.COMPLETE),
        (b'data: {"error":{"message":"x"}}\n\n' + LONG + FINISH, Outcome.ERROR_EVENT),
        (LONG + b"event: error\ndata: x\n\n" + LONG + FINISH, Outcome.ERROR_EVENT),
        (LONG + b"error: x\n\n" + LONG + FINISH, Outcome.ERROR_EVENT),
    ],
)
def test_an_ending_is_judged_by_bytes_and_not_by_reads(stream: bytes, expected: Outcome, step: int) -> None:
    assert judged(stream, step) is expected


@STEPS
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    "start",
    [
        b'event: response.completed\ndata: {"type":"response.completed","response":{"instructions":"%b"}}',
        b'data: {"type":"response.incomplete","response":{"instructions":"%b"}}',
        b'data: {"index":0,"content":"","stop":true,"prompt":"%b"}',
        b'data: {"token":{"id":2},"generated_text":"%b","details":null}',
        b'data: {"text":"t","meta_info":{"finish_reason":{"type":"stop"},"input_token_logprobs":"%b"}}',
    ],
)
def test_a_last_event_of_any_size_that_begins_with_the_reason_is_an_end(
    start: bytes, line_end: bytes, step: int
) -> None:
    stream = LONG + start % (b"x" * 100_000) + b"\n\n"
    assert judged(stream.replace(b"\n", line_end), step) is Outcome.COMPLETE


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b'","error":{"message":"x"},"', Outcome.ERROR_EVENT),
        (b'","type":"response.failed","', Outcome.ERROR_EVENT),
        (b". error: x", Outcome.COMPLETE),
        (b". event: error", Outcome.COMPLETE),
    ],
)
def test_where_bytes_are_dropped_no_line_begins_and_no_error_is_missed(
    said: bytes, expected: Outcome
) -> None:
    """Within an event that is too large to be kept, at every place in it; in one read and in two."""
    start = b'data: {"x":"' + b"x" * 8_000
    for after in range(2_000, 2_100):
        for cut in (0, 3_000):
            event, tail = start + said + b"y" * after, Tail()
            tail.add(event[:cut])
            tail.add(event[cut:])
            tail.add(b"y" * 100 + b'"}\n\n' + FINISH)
            assert outcome(Ending.COMPLETE, 200, tail) is expected, after


def test_what_is_kept_of_a_stream_is_bounded() -> None:
    tail = Tail()
    for _ in range(10_000):
        tail.add(TOKEN)
        assert tail._size == sum(map(len, tail._reads)) <= 6 << 10
