"""What must hold for any bytes: one function for each thing that reads them from outside.

A target takes an input and returns, or raises because a law is broken.  The first two bytes of some say where
the rest is cut.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from analysis.readers._choose import reader_of
from analysis.transcript import Content
from fuzz import events
from gateway import decode_body, model_name, paths, usage
from gateway.clients import upgrade
from gateway.first_event import FirstEvent
from gateway.outcome import outcome
from gateway.tail import Tail
from routing import prompt
from tests.wire.reading import Refused, Said, answer_or_none, read_all
from wire.exchange import Ending
from wire.handshake import Handshake
from wire.response import MalformedAnswer, ResponseHead
from wire.stateless import STATELESS

Target = Callable[[bytes], None]

_KEY = b"k" * 32
_SMALL_HEAD = 2048
_CODINGS = (b"gzip", b"deflate", b"zstd", b"br")
_PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/generate",
    "/completion",
    "/v1/embeddings",
)
_ANSWERS_OF = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/generate",
    "/completion",
)


def request_reader(data: bytes) -> None:
    """Requests are read alike wherever they are cut, nothing follows a refusal, and each has one framing."""
    cuts, data = _cut(data)
    said = read_all(data, cuts)
    assert said == read_all(data, range(len(data)))
    for at, one in enumerate(said):
        if isinstance(one, Refused):
            assert at == len(said) - 1
        else:
            _one_framing(one)
    read_all(data, cuts, limit=_SMALL_HEAD)


def _one_framing(one: Said) -> None:
    names = [name.lower() for name, _ in one.headers]
    length, chunked = one.framing
    assert b"content-length" not in names and names.count(b"transfer-encoding") == chunked
    assert not (chunked and length is not None)
    assert not one.whole or one.upgrade or chunked or len(one.body) == (length or 0)
    for name, value in one.headers:
        assert not set(b"\r\n\0:") & set(name) and not set(b"\r\n\0") & set(value)
    assert not set(b"\r\n\0 ") & set(one.line[1])


def response_reader(data: bytes) -> None:
    """Answers are read alike wherever they are cut, and a body is as long as it was said to be."""
    cuts, data = _cut(data)
    bodiless = bool(cuts) and cuts[0] % 7 == 0
    read = answer_or_none(data, cuts, bodiless=bodiless)
    assert read == answer_or_none(data, range(len(data)), bodiless=bodiless)
    if read is not None and not isinstance(read, str):
        names = [name.lower() for name, _ in read.headers]
        assert names.count(b"content-length") <= 1
        assert not (b"content-length" in names and b"transfer-encoding" in names)
        assert 200 <= read.status <= 999 and not (bodiless and read.body)


def sse_readers(data: bytes) -> None:
    """Every reader of answers takes any bytes, cut anywhere, and says the same of them."""
    cuts, data = _cut(data)
    path = _ANSWERS_OF[data[0] % len(_ANSWERS_OF)] if data else _ANSWERS_OF[0]
    data = data[1:]
    assert _read(path, data, cuts) == _read(path, data, list(range(len(data))))
    usage.usage([data], True, data)
    usage.usage([data], False)
    tail = Tail()
    for piece in _pieces(data, cuts):
        tail.add(piece)
    outcome(Ending.COMPLETE, 200, tail)


def _read(path: str, data: bytes, cuts: list[int]) -> Content:
    reader = reader_of(path)
    for piece in _pieces(data, cuts):
        reader.feed(piece, 1)
    return replace(reader.end(1), last_ns=None)


def first_event(data: bytes) -> None:
    """No byte of a stream is lost or turned round by watching for its first event."""
    cuts, data = _cut(data)
    watch, passed, began = FirstEvent(), b"", False
    for piece in _pieces(data, cuts):
        if began:
            passed += piece
            continue
        seen = watch.feed(piece)
        passed, began = passed + seen.passed, seen.began
    assert passed + watch.held == data


def prompt_reader(data: bytes) -> None:
    """A body is read or said to be unreadable, the same each time; its chain grows with it."""
    path = _PATHS[data[0] % len(_PATHS)] if data else _PATHS[0]
    body = data[1:]
    try:
        read = prompt.read(path, body, _KEY)
    except prompt.Unreadable as error:
        assert error.reason
        return
    assert read == prompt.read(path, memoryview(body), _KEY)
    assert list(read.ends) == sorted(read.ends) and len(read.ends) == len(read.chain)


def the_model_name(data: bytes) -> None:
    """The name found is the one a JSON decoder finds, and renaming changes it and nothing else."""
    found = model_name.find(data)
    try:
        fields = json.loads(data.decode())  # of bytes, json would guess at UTF-16
    except (ValueError, RecursionError):
        if found is not None:
            assert data[found.start : found.start + 1] == b'"' == data[found.end - 1 : found.end]
        return
    said = fields.get("model") if isinstance(fields, dict) else None
    if isinstance(said, str):
        assert found is not None and found.name == said
        assert json.loads(model_name.renamed(data, "other")) == {**fields, "model": "other"}
    else:
        assert found is None and model_name.renamed(data, "other") == data


def targets_of_requests(data: bytes) -> None:
    """No spelling of a path that is relayed means another place than the inference API."""
    method, _, target = data.partition(b" ")
    asked = paths.read(method, target)
    if asked.kind is paths.Kind.RELAY:
        assert asked.path.startswith("/v1/") or asked.path in STATELESS
        assert not {".", ".."} & set(asked.path.split("/"))


def the_form(data: bytes) -> None:
    """The name found in a form is in it where it is said to be, and renaming changes it and nothing else."""
    content_type = b"multipart/form-data; boundary=b"
    found = model_name.find(data, content_type)
    renamed = model_name.renamed(data, "other", content_type)
    if found is None:
        assert renamed == data
        return
    assert data[found.start : found.end].decode("utf-8", "replace") == found.name
    again = model_name.find(renamed, content_type)
    assert again is not None and again.name == "other"
    assert renamed[: again.start] == data[: found.start] and renamed[again.end :] == data[found.end :]


def coded_bodies(data: bytes) -> None:
    """No more is made of a coded body than may be; its beginning, and all of it, are read alike."""
    codings = [_CODINGS[at % len(_CODINGS)] for at in data[:1]] * (1 + (len(data) > 1 and data[1] > 250))
    body = data[2:]
    begun = decode_body.beginning(codings, body, _SMALL_HEAD)
    assert len(begun) <= _SMALL_HEAD
    try:
        decoded = decode_body.decoded(codings, body, _SMALL_HEAD)
    except decode_body.Undecodable as error:
        assert error.status in (400, 415) and error.reason
        return
    assert decoded.body == begun


def handshakes(data: bytes) -> None:
    """An answer to a handshake is read alike wherever it is cut; a 101 names its protocol."""
    cuts, data = _cut(data)
    assert _shaken(data, cuts) == _shaken(data, list(range(len(data))))


def _shaken(data: bytes, cuts: list[int]) -> object:
    handshake = Handshake(_SMALL_HEAD)
    left = data
    try:
        for piece in _pieces(data, cuts):
            handshake.feed(piece)
            left = left[len(piece) :]
            if handshake.switched is not None:
                assert b"upgrade" in handshake.switched.names
                return _told(handshake.switched), handshake.rest + left
            if handshake.complete:
                return _told(handshake.refused), handshake.body
    except MalformedAnswer:
        return None
    handshake.eof()
    return _told(handshake.refused), handshake.body, handshake.complete


def _told(head: ResponseHead | None) -> object:
    """What a head says, to be compared."""
    if head is None:
        return None
    return head.status, head.reason, head.headers, head.content_length, head.chunked, head.keep_alive


def queries(data: bytes) -> None:
    """Renaming the model in a query changes what is read there, and the path not at all."""
    target = b"/" + data
    if upgrade.model(target) is not None:
        assert upgrade.model(upgrade.renamed(target, "o/ther name")) == "o/ther name"
    else:
        assert upgrade.renamed(target, "o/ther name") == target
    assert upgrade.renamed(target, "x").partition(b"?")[0] == target.partition(b"?")[0]


TARGETS: dict[str, Target] = {
    "request_reader": request_reader,
    "response_reader": response_reader,
    "sse_readers": sse_readers,
    "first_event": first_event,
    "prompt_reader": prompt_reader,
    "model_name": the_model_name,
    "model_in_form": the_form,
    "paths": targets_of_requests,
    "queries": queries,
    "coded_bodies": coded_bodies,
    "handshakes": handshakes,
    **events.TARGETS,
}


def _cut(data: bytes) -> tuple[list[int], bytes]:
    rest = data[2:]
    return sorted({at % (len(rest) + 1) for at in data[:2]}), rest


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(places) if start < end]
