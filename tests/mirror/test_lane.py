"""The lane takes what fits, drops the newest, counts every drop once; frames are read back as they were."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.frames import Copy, MalformedFrame, Missed, Served, production_answer, read_frame
from mirror.lane import Lane, pack_copy, pack_missed, pack_served

offers = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 300), st.booleans(), st.booleans()))


@given(st.integers(0, 200), st.integers(0, 200), offers)
def test_every_offer_is_taken_or_counted_and_the_queue_never_passes_its_limit(
    limit: int, frame_limit: int, some: list[tuple[int, int, bool, bool]]
) -> None:
    lane = Lane(limit, frame_limit)
    taken = 0
    for size, queued, connected, copy in some:
        if lane.offer(bytes(size), queued, connected, copy=copy):
            taken += 1
            assert connected and queued + size <= limit and size <= frame_limit
        elif connected and size <= frame_limit:
            assert queued + size > limit
    assert taken + sum(lane.dropped.values()) + sum(lane.unserved.values()) == len(some)
    assert set(lane.dropped) <= {"lane_full", "lane_down", "too_large"}


@given(st.lists(st.sampled_from(["offer", "drop", "tell"])))
def test_every_drop_is_told_exactly_once(steps: list[str]) -> None:
    lane = Lane(10)
    told: dict[str, int] = {}
    for step in [*steps, "tell"]:
        if step == "offer":
            lane.offer(b"x", 0, False)
        elif step == "drop":
            lane.drop("too_large", 2)
        else:
            for reason, n in lane.missed().items():
                told[reason] = told.get(reason, 0) + n
    assert told == dict(lane.dropped)
    assert lane.missed() == {}


def unpacked(frame: bytes) -> object:
    return msgpack.unpackb(frame)


@given(st.binary(), st.integers(-(1 << 63), (1 << 64) - 1), st.lists(st.tuples(st.binary(), st.binary())))
def test_a_copy_is_read_back_as_it_was_packed(
    body: bytes, root: int, headers: list[tuple[bytes, bytes]]
) -> None:
    packed = pack_copy(
        "e",
        "id-1",
        "/v1/completions",
        headers,
        body,
        received_ns=1,
        sent_ns=2,
        root=root,
        turn=3,
        stream=True,
    )
    expected = Copy("e", "id-1", "/v1/completions", headers, body, 1, 2, root, 3, True)
    assert read_frame(unpacked(packed)) == expected


def served(reads: list[tuple[int, bytes]], chunked: bool) -> Served:
    packed = pack_served(
        "e",
        "id-1",
        status=200,
        content_type="text/event-stream",
        reads=reads,
        chunked=chunked,
        received_ns=1,
        sent_ns=2,
        head_ns=3,
        end_ns=9,
        ending="complete",
    )
    frame = read_frame(unpacked(packed))
    assert isinstance(frame, Served)
    return frame


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.data())
def test_productions_chunked_answer_is_deframed_wherever_it_was_cut(
    pieces: list[bytes], data: st.DataObject
) -> None:
    raw = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    parts = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    answer = production_answer(served(list(enumerate(parts)), True))
    assert b"".join(body for _, body in answer["reads"]) == b"".join(pieces)
    assert answer["ending"] == "complete" and answer["arm"] == "production"
    stamps = [at for at, _ in answer["reads"]]
    assert stamps == sorted(stamps) and all(body for _, body in answer["reads"])


def test_each_piece_of_production_keeps_the_instant_of_its_read() -> None:
    answer = production_answer(
        served([(10, b"3\r\nabc\r\n"), (20, b"2\r\nde\r\n"), (30, b"0\r\n\r\n")], True)
    )
    assert answer["reads"] == [(10, b"abc"), (20, b"de")]


def test_broken_chunk_framing_ends_the_answer_and_says_so() -> None:
    answer = production_answer(served([(10, b"3\r\nabc\r\n"), (20, b"zz\r\n")], True))
    assert answer["reads"] == [(10, b"abc")] and answer["ending"] == "malformed"


def test_an_answer_without_chunks_is_left_as_it_is() -> None:
    assert production_answer(served([(1, b"ab"), (2, b""), (3, b"c")], False))["reads"] == [
        (1, b"ab"),
        (3, b"c"),
    ]


def test_missed_is_read_back() -> None:
    assert read_frame(unpacked(pack_missed("e", "lane_full", 4))) == Missed("e", "lane_full", 4)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_like | st.tuples(st.sampled_from(["copy", "served", "missed"]), json_like).map(list))
def test_whatever_else_is_unpacked_is_refused_as_malformed(thing: object) -> None:
    with pytest.raises(MalformedFrame):
        read_frame(thing)


def test_a_negative_count_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_frame(["missed", {"experiment": "e", "reason": "r", "n": -1}])
