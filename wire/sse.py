"""Server-sent events out of bytes that may be cut anywhere (WHATWG HTML 9.2.5)."""

from typing import Final

_BOM: Final = b"\xef\xbb\xbf"


class EventSplitter:
    """Gives the `data` of each event as soon as its blank line has come.

    Line ends may be LF, CRLF or CR.  Comments are counted and dropped; `event`, `id` and `retry` are
    ignored.  An unfinished event at the end of the stream is not an event.
    """

    __slots__ = ("_data", "_started", "_tail", "comments")

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []
        self._started = False
        self.comments = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the events that `data` completes."""
        data = self._tail + data if self._tail else data
        if not self._started:
            if _BOM.startswith(data[:3]) and len(data) < 3:
                self._tail = data
                return []
            self._started = True
            data = data.removeprefix(_BOM)
        if b"\r" in data:
            # A trailing CR may be half of a CRLF: it waits for the next piece.
            held = b"\r" if data.endswith(b"\r") else b""
            data = data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            held = b""
        lines = data.split(b"\n")
        self._tail = lines.pop() + held
        payloads: list[bytes] = []
        for line in lines:
            if not line:
                if self._data:
                    payloads.append(b"\n".join(self._data))
                    self._data = []
            elif line.startswith(b":"):
                self.comments += 1
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line == b"data":
                self._data.append(b"")
        return payloads
