"""Laws of the splitter of server-sent events."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from analysis.readers._events import EventSplitter


def split(raw: bytes) -> list[bytes]:
    return EventSplitter().feed(raw)


LINE = st.sampled_from(
    [b"data: a", b"data:b", b"data:  c", b"data", b": comment", b"event: x", b"id: 1", b"\xc3\xa9", b""]
)
STREAM = st.lists(st.tuples(LINE, st.sampled_from([b"\n", b"\r\n", b"\r"]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(raw=STREAM, cuts=st.lists(st.integers(0, 200)))
def test_cut_anywhere_gives_the_same_events(raw: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    splitter = EventSplitter()
    pieces = [raw[a:b] for a, b in pairwise(places)]
    assert [event for piece in pieces for event in splitter.feed(piece)] == split(raw)


@given(lines=st.lists(LINE))
def test_the_spelling_of_line_ends_does_not_matter(lines: list[bytes]) -> None:
    spelled = [b"".join(line + end for line in lines) for end in (b"\n", b"\r\n", b"\r")]
    assert split(spelled[0]) == split(spelled[1]) == split(spelled[2])


def test_data_lines_join_and_one_blank_is_the_fields_own() -> None:
    assert split(b"data: a\ndata:b\ndata:  c\n\n") == [b"a\nb\n c"]


def test_an_event_without_its_blank_line_is_none() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\n") == [b"a"]


def test_comments_ids_and_event_names_make_no_event() -> None:
    assert split(b": hb\n\nevent: x\nid: 1\n\nretry: 5\n\n") == []


def test_a_byte_order_mark_is_dropped_once() -> None:
    assert split(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n") == [b"a", b"c"]


def test_an_empty_data_line_is_an_event_of_nothing() -> None:
    assert split(b"data\n\ndata:\n\n") == [b"", b""]
