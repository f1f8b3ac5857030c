"""What an engine says to a request for another protocol, sans-IO: yes (101), or an ordinary answer."""

import httptools

from wire.http1 import Headers
from wire.response import MalformedAnswer, ResponseHead, ResponseReader


class Handshake:
    """Reads up to the answer's end, or up to where the other protocol begins.

    `switched` is the head of a 101 and `rest` what came after it; otherwise `refused` is the head and `body`
    the body of what was answered instead, once `complete`.
    """

    __slots__ = (
        "_body_limit",
        "_held",
        "_limit",
        "_reader",
        "body",
        "complete",
        "refused",
        "rest",
        "switched",
    )

    def __init__(self, head_limit_bytes: int = 64 << 10, body_limit_bytes: int = 1 << 20) -> None:
        self._limit = head_limit_bytes
        self._body_limit = body_limit_bytes
        self._held = b""
        self._reader: ResponseReader | None = None
        self.switched: ResponseHead | None = None
        self.refused: ResponseHead | None = None
        self.rest = b""
        self.body = b""
        self.complete = False

    def feed(self, data: bytes) -> None:
        """Take a read; none after `switched` or `complete`.  Raises MalformedAnswer."""
        if self._reader is not None:
            self._read_answer(self._reader, data)
            return
        self._held = data = self._held + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            status = data[:13]
            if not (status.startswith(b"HTTP/1.1 1") and status[10:12].isdigit() and status[12:] == b" "):
                self._reader = ResponseReader(self._limit)
                self._held = b""
                self._read_answer(self._reader, data)
                return
            if status[9:12] == b"101":
                self.switched = _head_of_101(data[: end + 4])
                self._held, self.rest = b"", data[end + 4 :]
                return
            self._held = data = data[end + 4 :]  # an interim answer: the real one is to come
        if len(data) > self._limit or not b"HTTP/1.".startswith(data[:7]):
            raise MalformedAnswer("the answer does not begin like HTTP/1.1")

    def eof(self) -> None:
        """The connection ended, which may be how the answer ends."""
        if self._reader is not None:
            self.complete = self._reader.eof()

    def _read_answer(self, reader: ResponseReader, data: bytes) -> None:
        self.body += reader.feed(data)
        if len(self.body) > self._body_limit:
            raise MalformedAnswer("an answer as long as this is none to a handshake")
        self.refused = reader.head
        self.complete = reader.complete


def _head_of_101(data: bytes) -> ResponseHead:
    reading = _Reading()
    parser = httptools.HttpResponseParser(reading)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        names = [name.lower() for name, _ in reading.headers]
        return ResponseHead(101, reading.reason, reading.headers, names, False, None, False, False)
    except httptools.HttpParserError as error:
        raise MalformedAnswer(str(error) or "not HTTP") from None
    raise MalformedAnswer("the engine switched to no protocol")


class _Reading:
    """Receives llhttp's callbacks."""

    __slots__ = ("headers", "reason")

    def __init__(self) -> None:
        self.headers: Headers = []
        self.reason = b""

    def on_status(self, part: bytes) -> None:
        self.reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))
