"""What the client is given of an answer: a head once, the body as it comes, an ending it cannot mistake."""

from enum import Enum
from typing import TYPE_CHECKING, Final

from gateway.ask import Ask, client_head
from gateway.clients import answers
from gateway.head import trailer_lines
from wire.http1 import Headers
from wire.response import BODILESS_STATUS, ResponseHead

if TYPE_CHECKING:
    from gateway.clients.server import Connection

# Below this a chunk and its framing are joined: one small copy is cheaper than two more pieces to write.
_JOINED_BELOW_BYTES: Final = 4096


class Framing(Enum):
    """How the client is told where the answer ends."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"
    NONE = "none"


class Reply:
    """One answer on its way to the client.

    An engine's chunks are framed anew, a read at a time: so the client's side is at a chunk's boundary
    whenever the engine goes away, and the failure can be said in words before the connection closes.
    """

    __slots__ = (
        "_client",
        "_framing",
        "_held",
        "_is_events",
        "_is_head",
        "_is_messages",
        "_is_old",
        "_takes_trailers",
        "degraded",
        "head_sent",
        "id",
    )

    def __init__(self, client: "Connection", ask: Ask, id: bytes) -> None:
        self._client = client
        self._is_head = ask.is_head
        self._is_old = ask.head.version != "1.1"
        self._takes_trailers = ask.takes_trailers
        self._is_messages = ask.is_messages
        self._framing = Framing.NONE
        self._held = b""  # the head, until it is written
        self._is_events = False
        self.degraded = b""  # a line that tells what was done for want of room
        self.id = id
        self.head_sent = False

    @property
    def is_open(self) -> bool:
        """Nothing sent so far says where the answer ends: another engine's may still become this one."""
        return not self.head_sent or self._framing in (Framing.CHUNKED, Framing.CLOSE)

    def send_head(self, response: ResponseHead, *, more: bool) -> None:
        """Pass the engine's head on, framed for this client; once: a later attempt's head stays here.

        `more`: the body's beginning or the end is told next, and the head is written with it.
        """
        if self.head_sent:
            return
        self.head_sent = True
        if self._client.grant is not None:
            response = self._client.grant.over(response)
        self._is_events = response.is_events
        length = response.content_length
        close = b"" if self._client.keeps_alive else b"Connection: close\r\n"
        if self._is_head or response.status in BODILESS_STATUS:
            framing = b""
            if length is not None and response.status != 204:
                framing = b"Content-Length: %d\r\n" % length
        elif length is not None:
            self._framing = Framing.LENGTH
            framing = b"Content-Length: %d\r\n" % length
        elif self._is_old:
            self._framing = Framing.CLOSE
            framing, close = b"", b"Connection: close\r\n"
        else:
            self._framing = Framing.CHUNKED
            framing = b"Transfer-Encoding: chunked\r\n"
        if self.degraded:
            framing += self.degraded
        if self._is_messages and b"request-id" not in response.names:  # where Anthropic's SDKs look for it
            framing += b"request-id: %b\r\n" % self.id
        self._held = b"%b%b%bx-request-id: %b\r\n\r\n" % (client_head(response), framing, close, self.id)
        if not more:
            self._flush()

    def send_body(self, body: bytes, framed: bytes | None = None) -> None:
        """Pass on a piece of the answer; `framed` is the same as exactly one chunk, where it came so."""
        if self._framing is Framing.CHUNKED:
            if framed is not None:
                body = framed
            elif len(body) < _JOINED_BELOW_BYTES:
                body = b"%x\r\n%b\r\n" % (len(body), body)
            else:
                held, self._held = self._held, b""
                self._client.write_all((b"%b%x\r\n" % (held, len(body)), body, b"\r\n"))
                return
        elif self._framing is Framing.NONE:
            return
        if self._held:
            held, self._held = self._held, b""
            if len(body) >= _JOINED_BELOW_BYTES:
                self._client.write_all((held, body))
                return
            body = held + body
        self._client.write(body)

    def finish(self, trailers: Headers, at_ns: int) -> None:
        """The answer is whole since `at_ns`; its trailers go to those who asked for them."""
        if self._framing is Framing.CHUNKED:
            held, self._held = self._held, b""
            if trailers and self._takes_trailers:
                self._client.write(b"%b0\r\n%b\r\n" % (held, trailer_lines(trailers)))
            else:
                self._client.write(held + b"0\r\n\r\n")
        elif self._held:
            self._flush()
        self._client.answered(at_ns, close=self._framing is Framing.CLOSE or self._client.is_unread)

    def cut(self, why: str) -> None:
        """The answer cannot be finished: an event says so where there are events, and no end looks clean."""
        if self._is_events and self._framing is Framing.CHUNKED:
            self.send_body(answers.cut_event(why, anthropic=self._is_messages))
        self._flush()
        # Without a length or chunks only a reset tells a cut from an end.
        self._client.cut(reset=self._framing is Framing.CLOSE)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._client.write(held)
