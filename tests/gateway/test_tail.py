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


@pytest.mark.parametrize("length", range(6_000, 6_300))
def test_where_bytes_are_dropped_no_line_begins_and_no_error_is_missed(length: int) -> None:
    """The same words are an error at the beginning of a line and none within, at every place."""
    for said, expected in ((b"\n\nerror: x\n\n", Outcome.ERROR_EVENT), (b". error: x. ", Outcome.COMPLETE)):
        for after in (2_000, 2_040, 2_048, 2_060, 2_100):
            tail = Tail()
            tail.add(b"data: " + b"x" * (length - after) + said)
            tail.add(b"y" * after + b"\n\n" + FINISH)
            assert outcome(Ending.COMPLETE, 200, tail) is expected


def test_what_is_kept_of_a_stream_is_bounded() -> None:
    tail = Tail()
    for _ in range(10_000):
        tail.add(TOKEN)
        assert tail._size == sum(map(len, tail._reads)) <= 6 << 10
