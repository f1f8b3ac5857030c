"""How does one record lie in a log?  Framed and checksummed, so that what is torn or damaged is known.

A frame is a mark, the length of what follows, a CRC-32 over that length and what follows, and then the
record: its kind as a short msgpack string and its body as one msgpack object.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import BinaryIO, Final
from zlib import crc32

MARK: Final = b"\xf5\x4c"
MOST_BYTES: Final = 64 << 20
_HEAD: Final = Struct("<2sII")
_LENGTH: Final = Struct("<I")
_READ_BYTES: Final = 1 << 20
_LONGEST_KIND: Final = 31  # what fits the one byte of a short msgpack string


def framed(kind: str, body: bytes) -> bytes:
    """One record as it is appended; `body` is one msgpack object.  ValueError when it is too large."""
    name = kind.encode()
    if not 0 < len(name) <= _LONGEST_KIND:
        raise ValueError(f"a kind has 1 to {_LONGEST_KIND} bytes, got {kind!r}")
    record = bytes((0xA0 | len(name),)) + name + body
    if len(record) > MOST_BYTES:
        raise ValueError(f"a record of {len(record)} bytes is larger than {MOST_BYTES}")
    return _HEAD.pack(MARK, len(record), _checksum(record)) + record


def _checksum(record: bytes | memoryview) -> int:
    return crc32(record, crc32(_LENGTH.pack(len(record))))


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log that are no record, with whole records after them."""

    at: int
    length: int


class Frames:
    """The records of a file, in order, as (kind, body).

    What is no frame is skipped up to the next one and kept in `damage`; where no frame follows it is the torn
    tail.  `at` is where the last record begins, and once read to the end, `end` is where the last whole one
    ends.  Reading begins at `begin`, where a record does or one ended.
    """

    def __init__(self, file: BinaryIO, begin: int = 0) -> None:
        self._file = file
        self._buffer = b""
        self._begin = begin  # of the buffer, in the file
        self._at = 0  # in the buffer
        self._go(begin)
        self.at = self.end = begin
        self.damage: list[Damage] = []

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        while (record := self.take()) is not None:
            yield record

    def take(self) -> tuple[str, bytes] | None:
        """The next record; None when there is none."""
        record = self._whole()
        if record is None:
            record = self._next_whole()
            if record is None:
                return None
        name = record[0] & 0x1F
        return record[1 : 1 + name].decode(), record[1 + name :]

    def _whole(self) -> bytes | None:
        """The record that begins just here, and past it; None when none does."""
        if not self._has(_HEAD.size):
            return None
        mark, length, checksum = _HEAD.unpack_from(self._buffer, self._at)
        if mark != MARK or not 1 < length <= MOST_BYTES or not self._has(_HEAD.size + length):
            return None
        begin = self._at + _HEAD.size
        record = self._buffer[begin : begin + length]
        if _checksum(record) != checksum:
            return None
        self.at = self._begin + self._at
        self._at = begin + length
        self.end = self._begin + self._at
        return record

    def _next_whole(self) -> bytes | None:
        """The first record that begins later; what lies before it is damage.  None: what is left is torn.

        What was being written when it was read is whole by the time that a later record is: so what is found
        counts once it is found again.
        """
        since, at = self.end, -1
        while (record := self._search()) is not None and self.at != at:
            at = self.at
            self._go(since)
            self.end = since
            if (record := self._whole()) is not None:
                return record
        if record is None:
            self._go(since)
        else:
            self.damage.append(Damage(since, at - since))
        return record

    def _search(self) -> bytes | None:
        """The first record that begins after this place, and past it."""
        while True:
            found = self._buffer.find(MARK, self._at + 1)
            if found < 0:
                self._at = max(self._at, len(self._buffer) - len(MARK))  # a mark may begin with the last byte
                if not self._more():
                    return None
                continue
            self._at = found
            if (record := self._whole()) is not None:
                return record

    def _go(self, to: int) -> None:
        """Read on from another place of the file."""
        self._file.seek(to)
        self._buffer, self._begin, self._at = b"", to, 0

    def _has(self, length: int) -> bool:
        """Whether the buffer holds so many bytes from here on, once it is filled as far as may be."""
        while len(self._buffer) - self._at < length:
            if not self._more():
                return False
        return True

    def _more(self) -> bool:
        more = self._file.read(_READ_BYTES)
        self._buffer = self._buffer[self._at :] + more
        self._begin += self._at
        self._at = 0
        return bool(more)
