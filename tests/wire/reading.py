"""What a reader makes of bytes, whatever the reads they came in: the form in which laws compare readings."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from wire.http1 import Body, End, Malformed, RequestHead, RequestReader
from wire.response import MalformedAnswer, ResponseReader


@dataclass(frozen=True, slots=True)
class Said:
    """One request: what its head says, the body that came, whether it came whole."""

    line: tuple[bytes, bytes, str]
    headers: tuple[tuple[bytes, bytes], ...]
    framing: tuple[int | None, bool]
    keep_alive: bool
    upgrade: bool
    body: bytes
    whole: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """Where reading stopped, and the status this deserves; its wording is not compared."""

    status: int


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """`data` cut at these places; no piece is empty."""
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(places) if start < end]


def read_all(data: bytes, cuts: Iterable[int] = (), limit: int = 64 << 10) -> list[Said | Refused]:
    """Everything a fresh reader of requests says of `data`, which comes cut at `cuts`."""
    reader = RequestReader(limit)
    said: list[Said | Refused] = []
    head: RequestHead | None = None
    body = b""
    for piece in pieces(data, cuts):
        for event in reader.feed(piece):
            if isinstance(event, RequestHead):
                assert head is None, "a request began within another"
                head, body = event, b""
            elif isinstance(event, Body):
                assert head is not None, "a body without a head"
                body += event.piece
            elif isinstance(event, End):
                assert head is not None, "an end without a head"
                said.append(_said(head, body, whole=True))
                head = None
            else:
                assert isinstance(event, Malformed)
                if head is not None:
                    said.append(_said(head, body, whole=False))
                    head = None
                said.append(Refused(event.status))
    if head is not None:
        said.append(_said(head, body, whole=False))
    return said


def _said(head: RequestHead, body: bytes, *, whole: bool) -> Said:
    assert head.names == [name.lower() for name, _ in head.headers]
    return Said(
        (head.method, head.target, head.version),
        tuple(head.headers),
        (head.content_length, head.chunked),
        head.keep_alive,
        head.upgrade,
        body,
        whole,
    )


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer of an engine, as far as it came; `whole` as it is once the connection has ended."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    complete: bool
    surplus: bool
    whole: bool


def read_answer(
    data: bytes, cuts: Iterable[int] = (), *, bodiless: bool = False, limit: int = 64 << 10
) -> Answered | None:
    """What a fresh reader makes of an answer; None where no head came.

    Raises `MalformedAnswer` as the reader does.
    """
    reader = ResponseReader(limit)
    reader.begin(bodiless=bodiless)
    body = b"".join([reader.feed(piece) for piece in pieces(data, cuts)])
    # llhttp passes over line ends after a message where they come in the same read: nobody is harmed by them.
    complete, surplus = reader.complete, reader.surplus and not data.endswith((b"\r", b"\n"))
    if reader.head is None:
        assert not reader.eof()
        return None
    return Answered(reader.head.status, tuple(reader.head.headers), body, complete, surplus, reader.eof())


def answer_or_none(data: bytes, cuts: Iterable[int] = (), *, bodiless: bool = False) -> Answered | str | None:
    """As `read_answer`, with a refusal as a word, so that readings can be compared."""
    try:
        return read_answer(data, cuts, bodiless=bodiless)
    except MalformedAnswer:
        return "malformed"
