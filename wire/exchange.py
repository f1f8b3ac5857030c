"""One request to an engine and its answer: what is told of it, and how it ended."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from wire.clock import monotonic_ns
from wire.response import ResponseHead

if TYPE_CHECKING:
    from wire.connection import Connection


class Ending(StrEnum):
    """How an exchange ended."""

    COMPLETE = "complete"
    CUT = "cut"  # the engine closed or reset before its answer was whole
    REFUSED = "refused"  # no connection came about
    FULL = "full"  # there was no connection left to make on this side: nothing the engine did
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    MALFORMED = "malformed"  # what came is not HTTP
    SHUTDOWN = "shutdown"  # this side stops, or has stopped using the engine, and could wait no longer


class Answer(Protocol):
    """What is told of an engine's answer, synchronously: one head, any number of pieces, one ending.

    `more`: what follows the head came in the same read, and is told next.  `framed`: `body` as it came, when
    that was exactly one whole chunk.
    """

    def head_came(self, head: ResponseHead, at_ns: int, *, more: bool) -> None: ...

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None: ...

    def ended(self, ending: Ending, at_ns: int) -> None: ...


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "_answer",
        "_connection",
        "_flow",
        "_paused",
        "_unsent",
        "bodiless",
        "heard",
        "reused",
        "streaming",
        "trailers",
        "written_ns",
    )

    def __init__(
        self, answer: Answer, *, bodiless: bool, streaming: bool, flow: Callable[[bool], None] | None
    ) -> None:
        self._answer: Answer | None = answer
        self._connection: Connection | None = None
        self._flow = flow
        self._paused = False  # asked for, perhaps before there is a connection to pause
        self._unsent: Sequence[bytes] = ()
        self.bodiless = bodiless
        self.streaming = streaming
        self.reused = False
        self.heard = False  # a byte of the answer came
        self.written_ns = 0  # when the request was handed to a connected socket; 0: it was not
        self.trailers: list[tuple[bytes, bytes]] = []

    def write(self, data: bytes) -> None:
        """Send a further piece of a streaming request's body."""
        if self._connection is not None:
            self._connection.transport.write(data)
        elif self._answer is not None:
            self._unsent = [*self._unsent, data]
            if self._flow is not None:
                self._flow(True)  # until there is a connection to take it

    def finish(self) -> None:
        """The request's body is whole."""
        self.streaming = False

    def pause_reading(self) -> None:
        self._paused = True
        if self._connection is not None:
            self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._connection is not None:
            self._connection.resume_reading()

    def cancel(self, ending: Ending = Ending.CANCELLED) -> None:
        """Close the connection; the answer ends now, unless it has ended."""
        connection = self._connection
        self._end(ending, monotonic_ns())
        if connection is not None:
            connection.drop()

    def _end(self, ending: Ending, at_ns: int) -> None:
        answer, self._answer = self._answer, None
        self._connection = None
        self._unsent = ()
        self._flow = None  # whose it is keeps this
        if answer is not None:
            answer.ended(ending, at_ns)
