"""Both ends of a document that goes by: engines tell its tokens at one of them.  The middle is not kept."""

from typing import Final

_FIRST_BYTES: Final = 1 << 10
_LAST_BYTES: Final = 32 << 10  # at least, where there is as much


class Ends:
    """The first and last bytes of a document.  A document that is short is kept whole, and nothing copied."""

    __slots__ = ("_first", "_reads", "_size")

    def __init__(self) -> None:
        self._first = b""  # once they are no longer among the last
        self._reads: list[bytes] = []
        self._size = 0

    def add(self, read: bytes) -> None:
        """Take the next piece."""
        self._reads.append(read)
        self._size += len(read)
        if self._size > 2 * _LAST_BYTES:
            last = b"".join(self._reads)
            self._first = self._first or last[:_FIRST_BYTES]
            self._reads = [last[-_LAST_BYTES:]]
            self._size = _LAST_BYTES

    @property
    def first(self) -> bytes:
        """The beginning of a document that is not kept whole, else empty."""
        return self._first

    @property
    def last(self) -> bytes:
        """The end, or the whole."""
        return self._reads[0] if len(self._reads) == 1 else b"".join(self._reads)
