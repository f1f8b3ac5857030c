"""How do lines get into a file so that a process that is killed loses none that were written?

Every line is flushed through the compressor: what is in the file can be read up to its last whole line, also
where the file just stops.  `zstd -dc` and `gzip -dc` read such a file too, and then say that its end is
missing.
"""

import fcntl
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Packing = Literal["zstd", "gzip", "none"]
ENDINGS: dict[Packing, str] = {"zstd": ".jsonl.zst", "gzip": ".jsonl.gz", "none": ".jsonl"}

_READ_BYTES = 1 << 18
_GZIP = 31  # zlib's word for gzip's framing; + 16 to read zlib's as well
_LONGEST_LINE = 64 << 20


class TornError(ValueError):
    """A file is not what its name says: not compressed so, or a line of it has no end."""


class _Packer(Protocol):
    def pack(self, line: bytes) -> bytes: ...

    def end(self) -> bytes: ...


class _Zstd:
    def __init__(self) -> None:
        self._made = zstd.ZstdCompressor(level=3)

    def pack(self, line: bytes) -> bytes:
        return self._made.compress(line, zstd.ZstdCompressor.FLUSH_BLOCK)

    def end(self) -> bytes:
        return self._made.flush()


class _Gzip:
    def __init__(self) -> None:
        self._made = zlib.compressobj(6, zlib.DEFLATED, _GZIP)

    def pack(self, line: bytes) -> bytes:
        return self._made.compress(line) + self._made.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._made.flush()


class _Plain:
    def pack(self, line: bytes) -> bytes:
        return line

    def end(self) -> bytes:
        return b""


_PACKERS: dict[Packing, type[_Packer]] = {"zstd": _Zstd, "gzip": _Gzip, "none": _Plain}


class Lines:
    """A new file that lines are added to; for this user only.  Raises OSError where there is no room.

    It is locked (flock) until it is closed, so that nobody writes it anew meanwhile.
    """

    def __init__(self, path: Path, packing: Packing) -> None:
        self.path = path
        self.size = 0
        self._packer = _PACKERS[packing]()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def add(self, line: bytes) -> None:
        """Write a whole line.  After an OSError this file takes no more: it is to be closed as it is."""
        self._write(self._packer.pack(line))

    def close(self, *, ended: bool = True) -> None:
        """End the file and have it on disk; `ended=False` leaves it as it is."""
        if self._fd < 0:
            return
        try:
            if ended:
                self._write(self._packer.end())
            os.fsync(self._fd)
        except OSError:
            pass  # what was written is there; its end is missing, as after a kill
        finally:
            os.close(self._fd)
            self._fd = -1

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            written = os.write(self._fd, view)
            self.size += written
            view = view[written:]


class Ending:
    """How a file that was read ended: `cut` where it just stops, within a line or before its end."""

    cut = False


def read_lines(
    path: Path, ending: Ending | None = None, *, piece_bytes: int = _READ_BYTES
) -> Iterator[bytes]:
    """The whole lines of a file, compressed or not; what a kill left unfinished is passed over.

    Raises OSError, and TornError where the content is not what the name says: of up to `piece_bytes` of the
    file before that nothing is given.
    """
    rest, ending = b"", ending or Ending()
    for piece in _unpacked(path, ending, piece_bytes):
        rest += piece
        *lines, rest = rest.split(b"\n")
        yield from lines
        if len(rest) > _LONGEST_LINE:
            raise TornError(f"{path}: a line of more than {_LONGEST_LINE} bytes")
    if rest.strip():
        if _cut_short(rest):
            ending.cut = True
        else:
            yield rest


def _cut_short(rest: bytes) -> bool:
    """Whether the last line is half a line: every line of ours is an object and ends with its brace."""
    return not rest.rstrip().endswith(b"}")


def _unpacked(path: Path, ending: Ending, piece_bytes: int) -> Iterator[bytes]:
    if path.name.endswith((".zst", ".gz")):
        yield from _members(path, ending, piece_bytes, is_zstd=path.name.endswith(".zst"))
        return
    with path.open("rb") as file:
        while piece := file.read(piece_bytes):
            yield piece


def _members(path: Path, ending: Ending, piece_bytes: int, *, is_zstd: bool) -> Iterator[bytes]:
    """Zstandard frames or gzip members, one after the other."""
    made: Any = None
    with path.open("rb") as file:
        while piece := file.read(piece_bytes):
            while piece:
                if made is None or made.eof:
                    made = zstd.ZstdDecompressor() if is_zstd else zlib.decompressobj(_GZIP)
                try:
                    yield made.decompress(piece)
                except (zstd.ZstdError, zlib.error) as error:
                    raise TornError(f"{path}: {error}") from None
                piece = made.unused_data if made.eof else b""
    ending.cut = made is not None and not made.eof
