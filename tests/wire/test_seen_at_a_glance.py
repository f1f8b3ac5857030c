"""What is read in plain steps is as a pattern says: heads known by their bytes, reads that are one chunk."""

import re
from contextlib import suppress
from itertools import product

from wire.known import Known
from wire.response import MalformedAnswer, ResponseReader

BEFORE, AFTER = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ", b"\r\naccept: */*\r\n\r\n"
LENGTHS = (
    b"1", b"20", b"123456789012345", b"1234567890123456", b"12345678901234567", b"0", b"007", b"", b"-1",
    b"+1", b"1 ", b" 1", b"1a", b"\xff", b"1\r",
)  # fmt: skip
HEAD = re.compile(re.escape(BEFORE) + rb"([1-9][0-9]{0,14})" + re.escape(AFTER))

BODIES = (b"", b"x", b"0123456789abcdef", b"\r\n" * 9, b"y" * 300)
SIZES = (b"%x", b"%X", b"0%x", b"%x;a=b", b" %x", b"%xg", b"%07x", b"1%07x")
CHUNK = re.compile(rb"([1-9a-fA-F][0-9a-fA-F]{0,6})\r\n(.*)\r\n", re.DOTALL)


def test_a_head_is_known_by_all_its_bytes_but_the_digits_of_its_length() -> None:
    known, heads = Known(object(), BEFORE, AFTER), []
    for length, after, body in product(LENGTHS, (AFTER, AFTER[2:], b""), (b"", b"{}")):
        heads.append(BEFORE + length + after + body)
    whole = BEFORE + b"42" + AFTER
    heads += [whole[:cut] for cut in range(len(whole))]
    heads += [whole[:at] + b"~" + whole[at + 1 :] for at in range(len(whole))]
    for data in heads:
        expected = HEAD.match(data)
        assert known.read(data) == ((0, 0) if expected is None else (expected.end(), int(expected[1]))), data


def test_a_read_is_passed_on_as_it_came_when_it_is_one_whole_chunk() -> None:
    reads = [b"\r\n\r\n", b"0\r\n\r\n", b"5\r\n\r\n"]
    ends = (b"\r\n", b"\n", b"\r\r", b"\n\n", b"\r", b"")
    for body, size, off, line_end, end in product(BODIES, SIZES, (-1, 0, 1, 300), ends, ends):
        reads.append(size % max(0, len(body) + off) + line_end + body + end)
    whole = b"10\r\n0123456789abcdef\r\n"
    reads += [whole[:cut] for cut in range(len(whole))]
    chunks = 0
    for data in reads:
        reader = ResponseReader()
        reader.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        said = b""
        with suppress(MalformedAnswer):
            said = reader.feed(data)
        found = CHUNK.fullmatch(data)
        if found is not None and int(found[1], 16) == len(found[2]):
            chunks += 1
            assert reader.framed == data and said == found[2], data
        else:
            assert reader.framed is None, data
    assert chunks == 8
