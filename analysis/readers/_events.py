"""Where do the events of a stream begin and end?  A splitter of server-sent events (WHATWG HTML §9.2)."""

_BOM = b"\xef\xbb\xbf"


class EventSplitter:
    """Takes bytes cut anywhere, gives the payloads of the events that are complete.

    Line ends may be LF, CR or CRLF. Comments give nothing. An event without its blank line is not one yet.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched = 0  # no blank line before this offset
        self._skip_lf = False  # the last byte was a CR that already ended its line
        self._started = False

    def feed(self, data: bytes) -> list[bytes]:
        """The `data` of every event that these bytes complete, its lines joined by LF."""
        if not data:
            return []
        if self._skip_lf and data[0] == 0x0A:
            data = data[1:]
        self._skip_lf = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pending = self._pending
        pending += data
        payloads: list[bytes] = []
        begin = 0
        while (end := pending.find(b"\n\n", max(begin, self._searched - 1))) >= 0:
            payload = self._payload(bytes(pending[begin : end + 1]))
            if payload is not None:
                payloads.append(payload)
            begin = self._searched = end + 2
        if begin:
            del pending[:begin]
        self._searched = len(pending)
        return payloads

    def _payload(self, block: bytes) -> bytes | None:
        if not self._started:
            self._started = True
            block = block.removeprefix(_BOM)
        if block.startswith(b"data: ") and block.count(b"\n") == 1:
            return block[6:-1]
        lines: list[bytes] = []
        for line in block.split(b"\n"):
            if line.startswith(b"data:"):
                lines.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line == b"data":
                lines.append(b"")
        return b"\n".join(lines) if lines else None
