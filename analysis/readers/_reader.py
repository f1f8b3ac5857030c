"""What is a reader?  The protocol, and the one that tells a stream of events from a body in one piece."""

from typing import Protocol

import msgspec

from analysis.readers._draft import Draft
from analysis.readers._events import EventSplitter
from analysis.transcript import Content

_MOST_BLANKS = 64 << 10


class Reader(Protocol):
    """Reads one answer. Never raises on what an engine sends: garbage becomes the content's `error`."""

    def feed(self, data: bytes, at_ns: int) -> None:
        """Takes the body bytes of one socket read."""
        ...

    def end(self, at_ns: int) -> Content:
        """The answer is over: what was in it."""
        ...


class Dialect(Protocol):
    """How one protocol spells its answers. Both may raise msgspec.MsgspecError on what they cannot read."""

    def event(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        """Takes the data of one event."""
        ...

    def body(self, payload: bytes, at_ns: int, draft: Draft) -> None:
        """Takes an answer in one piece."""
        ...


class JsonReader:
    """Reads JSON answers: server-sent events, or one body. The first byte tells which."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._draft = Draft()
        self._events = EventSplitter()
        self._body: bytearray | None = None
        self._last_ns: int | None = None
        self._streamed = False
        self._blanks = b""  # what came before the first byte that tells

    def feed(self, data: bytes, at_ns: int) -> None:
        if not data:
            return
        self._last_ns = at_ns
        if self._body is not None:
            self._body += data
            return
        if not self._streamed:
            if self._blanks:
                data, self._blanks = self._blanks + data, b""
            beginning = data.lstrip()
            if not beginning:
                # They mean nothing before a JSON value, but before a line of an event they belong to it.
                self._blanks = data[:_MOST_BLANKS]
                return
            if beginning[0] in b"{[":
                self._body = bytearray(beginning)
                return
            self._streamed = True
        for payload in self._events.feed(data):
            self._read_event(payload, at_ns)

    def _read_event(self, payload: bytes, at_ns: int) -> None:
        draft = self._draft
        if draft.role_ns is None:
            draft.role_ns = at_ns
        if payload == b"[DONE]" or not payload:
            return
        try:
            self._dialect.event(payload, at_ns, draft)
        except (msgspec.MsgspecError, RecursionError) as error:
            draft.fail(f"unreadable event: {error}")

    def end(self, at_ns: int) -> Content:
        if self._body is not None:
            try:
                self._dialect.body(bytes(self._body), at_ns, self._draft)
            except (msgspec.MsgspecError, RecursionError) as error:
                self._draft.fail(f"unreadable body: {error}")
        return self._draft.content(streamed=self._streamed, last_ns=self._last_ns)
