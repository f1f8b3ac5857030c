"""The end of an event stream, as far as its ending is judged by it: its last bytes, however they were cut.

What leaves these bytes is not lost: an error stays one however much follows it, and so does an ending that
was said at the beginning of an event too large to be kept (the last one of the Responses API repeats all).
"""

from typing import Final

from gateway.outcome import says_end, says_error

_KEPT_BYTES: Final = 2 << 10
_MOST_BYTES: Final = 6 << 10  # shortened only then: so a read costs next to nothing
# What is looked for is never longer; it may lie across the border of what is dropped.
_OVERLAP_BYTES: Final = 64
# An event larger than this is looked into before its beginning is dropped: what it says may all be there.
_EVENT_BYTES: Final = 4 << 10


class Tail:
    """The last bytes of a stream."""

    __slots__ = ("_ended", "_erred", "_is_whole", "_reads", "_size")

    def __init__(self) -> None:
        self._reads: list[bytes] = []
        self._size = 0
        self._ended = False
        self._erred = False
        self._is_whole = True  # nothing was dropped yet

    def add(self, read: bytes) -> None:
        """Take the next piece."""
        self._reads.append(read)
        self._size += len(read)
        if self._size > _MOST_BYTES:
            self._shorten()

    @property
    def has_error(self) -> bool:
        """An error was said, anywhere."""
        return self._erred or says_error(self._joined(), from_start=self._is_whole)

    @property
    def has_ended(self) -> bool:
        """Its last events say why it stopped, or that it is done."""
        return self._ended or says_end(self._joined(), from_start=self._is_whole)

    @property
    def last(self) -> bytes:
        """What is kept: the whole stream as long as that is little, then its last bytes."""
        return self._joined()

    def _joined(self) -> bytes:
        if len(self._reads) > 1:
            self._reads = [b"".join(self._reads)]
        return self._reads[0] if self._reads else b""

    def _shorten(self) -> None:
        whole, from_start = self._joined(), self._is_whole
        cut = len(whole) - _KEPT_BYTES
        begins = whole.rfind(b"\n\n", 0, cut)
        if begins < 0:
            begins = max(whole.rfind(b"\n\r\n", 0, cut), whole.rfind(b"\r\r", 0, cut))
        if len(whole) - begins <= _EVENT_BYTES:
            cut = begins  # an event is dropped as a whole
        else:
            self._ended = self._ended or says_end(
                whole[max(begins, 0) : cut + _OVERLAP_BYTES], from_start=from_start
            )
        self._erred = self._erred or says_error(whole[: cut + _OVERLAP_BYTES], from_start=from_start)
        self._is_whole = False
        self._reads = [whole[cut:]]
        self._size = len(whole) - cut
