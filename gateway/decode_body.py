"""What a compressed request body says, for routing only: engines get the bytes that the client sent.

Never more is decoded than may be read of a body: a bomb costs its size on the wire and that much.
"""

import sys
import zlib
from dataclasses import dataclass
from typing import Any, Final, Protocol

from wire.http1 import RequestHead

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

_MOST_CODINGS: Final = 3
# A coded body may be made of several members or frames; each costs a copy of all that follows it.
_MOST_MEMBERS: Final = 16
_ZSTD_WINDOW_LOG: Final = 23  # 8 MB, what RFC 9659 allows in HTTP
_IDENTITY: Final = b"identity"


class Undecodable(Exception):
    """The body cannot be read; `status` is what it deserves: 415, or 400 when it is not what it says."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded body.  Where it is not `whole`, it is the beginning: the rest is beyond what may be read."""

    body: bytes
    whole: bool
    is_changed: bool = False  # it is to be sent in the coded body's place


def codings(head: RequestHead) -> list[bytes]:
    """The codings of a request's body, in the order in which they were applied; empty for a plain one."""
    if b"content-encoding" not in head.names:
        return []
    given = [
        part.strip().lower()
        for name, (_, value) in zip(head.names, head.headers, strict=True)
        if name == b"content-encoding"
        for part in value.split(b",")
    ]
    return [one for one in given if one and one != _IDENTITY]


def plain(head: RequestHead) -> RequestHead:
    """The head of the same request with its body decoded."""
    kept = [at for at, name in enumerate(head.names) if name != b"content-encoding"]
    headers, names = [head.headers[at] for at in kept], [head.names[at] for at in kept]
    return head.with_headers(headers, names)


def decoded(applied: list[bytes], body: bytes, limit_bytes: int) -> Decoded:
    """Decode a whole body, to at most `limit_bytes`.  Raises Undecodable."""
    if len(applied) > _MOST_CODINGS:
        raise Undecodable(f"the body is coded more than {_MOST_CODINGS} times", 415)
    whole = True
    for coding in reversed(applied):
        body, is_all = _once(coding, body, limit_bytes, partial=not whole)
        whole = whole and is_all
    return Decoded(body, whole)


def beginning(applied: list[bytes], start: bytes, limit_bytes: int) -> bytes:
    """What can be made out of the beginning of a body; empty where nothing can."""
    if len(applied) > _MOST_CODINGS:
        return b""
    try:
        for coding in reversed(applied):
            start, _ = _once(coding, start, limit_bytes, partial=True)
    except Undecodable:
        return b""
    return start


class _Decompressor(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def _once(coding: bytes, data: bytes, limit_bytes: int, *, partial: bool) -> tuple[bytes, bool]:
    """One coding taken off: at most `limit_bytes`, and whether that is all."""
    out = b""
    try:
        for _ in range(_MOST_MEMBERS):
            member = _decompressor(coding, data)
            out += member.decompress(data, limit_bytes + 1 - len(out))
            if len(out) > limit_bytes:
                return out[:limit_bytes], False
            if not member.eof:
                if partial:
                    return out, False
                raise Undecodable(f"the body ends before its {coding.decode()} does", 400)
            data = member.unused_data
            if not data:
                return out, True
    except (zlib.error, zstd.ZstdError, EOFError) as error:
        if partial and out:
            return out, False
        name = coding.decode()
        raise Undecodable(f"the body is not {name}, as its content-encoding says: {error}", 400) from None
    return out, False


def _decompressor(coding: bytes, data: bytes) -> _Decompressor:
    made: Any
    if coding in (b"gzip", b"x-gzip"):
        made = zlib.decompressobj(16 + zlib.MAX_WBITS)
    elif coding == b"deflate":  # zlib's format by the standard; without its two bytes by some clients
        is_zlib = len(data) < 2 or (data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0)
        made = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
    elif coding == b"zstd":
        made = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})
    else:
        name = coding[:40].decode("latin-1")
        raise Undecodable(f"the content-encoding {name!r} is not understood; gzip, deflate and zstd are", 415)
    return made  # type: ignore[no-any-return]
