"""What a frame of the lane says, checked field by field: the shadow process trusts no worker's bytes."""

from typing import Any

import msgspec

from wire.response import MalformedAnswer, ResponseReader


class MalformedFrame(ValueError):
    """The object is not one of the lane's frames; nothing that follows on that connection can be trusted."""


class Copy(msgspec.Struct, frozen=True):
    """A sampled request: to be sent to every arm."""

    experiment: str
    id: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    received_ns: int
    sent_ns: int
    root: int
    turn: int
    stream: bool
    observed: bool = True  # production's answer follows
    golden: dict[str, Any] | None = None  # its id and how to check the answer: no client asked it


class Served(msgspec.Struct, frozen=True):
    """Production's answer to a sampled request, as it came: instants and raw bytes after the head."""

    experiment: str
    id: str
    status: int | None
    content_type: str | None
    reads: list[tuple[int, bytes]]
    chunked: bool
    received_ns: int
    sent_ns: int
    head_ns: int | None
    end_ns: int
    ending: str


class Load(msgspec.Struct, frozen=True):
    """How long a worker's requests to an experiment's fleet were in flight until `at_ns`, together.

    `engines` are there to share them.
    """

    experiment: str
    worker: int
    at_ns: int
    busy_ns: int
    engines: int


class Missed(msgspec.Struct, frozen=True):
    """`n` copies a worker dropped before the lane."""

    experiment: str
    reason: str
    n: int


Frame = Copy | Served | Missed | Load

_KINDS: dict[str, type[Copy] | type[Served] | type[Missed] | type[Load]] = {
    "copy": Copy,
    "served": Served,
    "missed": Missed,
    "load": Load,
}


def read_frame(frame: Any) -> Frame:
    """Check one unpacked object.  Raises MalformedFrame, saying what is wrong and where."""
    if not isinstance(frame, list) or len(frame) != 2 or frame[0] not in list(_KINDS):
        raise MalformedFrame("a frame is a pair of its kind (copy, served, missed, load) and its fields")
    try:
        read = msgspec.convert(frame[1], _KINDS[frame[0]])
    except msgspec.ValidationError as error:
        raise MalformedFrame(str(error)) from None
    if isinstance(read, Missed) and read.n < 0:
        raise MalformedFrame("n must not be negative")
    return read


def production_answer(served: Served) -> dict[str, Any]:
    """Production's answer in the form the arms' have: chunk framing removed, each piece with its instant.

    `order` is -1: production takes no part in the random order of dispatch.  Framing that is broken ends
    the body where it broke, and the ending says "malformed".
    """
    reads: list[tuple[int, bytes]] = []
    ending = served.ending
    if served.chunked:
        reader = ResponseReader()
        reader.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            for at_ns, raw in served.reads:
                body = reader.feed(raw)
                if body:
                    reads.append((at_ns, body))
        except MalformedAnswer:
            ending = "malformed"
    else:
        reads = [(at_ns, raw) for at_ns, raw in served.reads if raw]
    return {
        "arm": "production",
        "twin": 0,
        "order": -1,
        "sent_ns": served.sent_ns,
        "head_ns": served.head_ns,
        "status": served.status,
        "content_type": served.content_type or "",
        "reads": reads,
        "end_ns": served.end_ns,
        "ending": ending,
    }
