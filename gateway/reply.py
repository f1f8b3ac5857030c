"""What the client is given of an answer: a head once, the body as it comes, an ending it cannot mistake."""

from enum import Enum
from typing import TYPE_CHECKING

from gateway import answers, head
from wire.http1 import Headers, RequestHead
from wire.response import BODILESS_STATUS, ResponseHead

if TYPE_CHECKING:
    from gateway.server import Connection

# Below this a chunk and its framing are joined: one small copy is cheaper than two more pieces to write.
_JOINED_BELOW_BYTES = 4096


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

    __slots__ = ("_client", "_framing", "_held", "_is_events", "_request", "head_sent")

    def __init__(self, client: "Connection", request: RequestHead) -> None:
        self._client = client
        self._request = request
        self._framing = Framing.NONE
        self._held = b""  # the head, until it is written
        self._is_events = False
        self.head_sent = False

    @property
    def is_open(self) -> bool:
        """Nothing sent so far says where the answer ends: another engine's may still become this one."""
        return not self.head_sent or self._framing in (Framing.CHUNKED, Framing.CLOSE)

    def send_head(self, response: ResponseHead) -> None:
        """Pass the engine's head on, framed for this client; once: a later attempt's head stays here."""
        if self.head_sent:
            return
        self.head_sent = True
        if self._client.grant is not None:
            response = self._client.grant.over(response)
        self._is_events = response.is_events
        request, length = self._request, response.content_length
        framing = b""
        if request.method == b"HEAD" or response.status in BODILESS_STATUS:
            if length is not None and response.status != 204:
                framing = b"Content-Length: %d" % length
        elif length is not None:
            self._framing = Framing.LENGTH
            framing = b"Content-Length: %d" % length
        elif request.version == "1.1":
            self._framing = Framing.CHUNKED
            framing = b"Transfer-Encoding: chunked"
        else:
            self._framing = Framing.CLOSE
        close = self._framing is Framing.CLOSE or not self._client.keeps_alive(request)
        # Written with the first piece of the body where that comes in the same read: one system call less.
        self._held = head.to_client(response, framing, close=close)
        self._client.soon(self._flush)

    def send_body(self, body: bytes) -> None:
        """Pass on a piece of the answer as it came."""
        held, self._held = self._held, b""
        if self._framing is Framing.CHUNKED:
            if len(body) < _JOINED_BELOW_BYTES:
                self._client.write(b"%b%x\r\n%b\r\n" % (held, len(body), body))
            else:
                self._client.write_all((b"%b%x\r\n" % (held, len(body)), body, b"\r\n"))
        elif self._framing is Framing.NONE:
            self._held = held
        elif held and len(body) >= _JOINED_BELOW_BYTES:
            self._client.write_all((held, body))
        else:
            self._client.write(held + body if held else body)

    def finish(self, trailers: Headers) -> None:
        """The answer is whole; its trailers go to those who asked for them."""
        held, self._held = self._held, b""
        if self._framing is not Framing.CHUNKED:
            last = held
        elif trailers and head.takes_trailers(self._request):
            last = b"%b0\r\n%b\r\n" % (held, head.trailer_lines(trailers))
        else:
            last = held + b"0\r\n\r\n"
        if last:
            self._client.write(last)
        self._client.answered(close=self._framing is Framing.CLOSE or self._client.is_unread)

    def cut(self, why: str) -> None:
        """The answer cannot be finished: an event says so where there are events, and no end looks clean."""
        if self._is_events and self._framing is Framing.CHUNKED:
            self.send_body(answers.cut_event(why))
        self._flush()
        # Without a length or chunks only a reset tells a cut from an end.
        self._client.cut(reset=self._framing is Framing.CLOSE)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._client.write(held)
