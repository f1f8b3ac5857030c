"""What the soak's clients ask, and what they have a right to: each kind of request with its good outcomes."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

WHOLE, CUT, LEFT = "whole", "cut", "left"  # else "status NNN"
BODY_LIMIT, READ_LIMIT = 16 << 20, 1 << 20  # of the gateway, in bytes
_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request and what may come of it when nothing else goes wrong.

    `reads` is how the client reads: at once, slowly, not at all for a time (stalled), or it leaves.  A body
    that the gateway does not hold whole (`is_held`) cannot be sent to a second engine.
    """

    kind: str
    raw: bytes
    good: frozenset[str]
    reads: str = "at once"
    chunks: int | None = None
    crc: int | None = None

    @property
    def is_held(self) -> bool:
        return len(self.raw) < READ_LIMIT


def _post(body: bytes, soak: str, path: str = _PATH) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: soak", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", f"X-Soak: {soak}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _body(rng: Random, *, stream: bool = False, size: int = 0) -> bytes:
    """Turns of one of 50 conversations: what the prefix index keeps of them is bounded."""
    number = rng.randrange(50)
    turns = [f"turn {turn} of conversation {number} " * 20 for turn in range(rng.randint(1, 6))]
    messages = [{"role": "user", "content": text} for text in turns]
    if size:
        messages.append({"role": "user", "content": "y" * size})
    return json.dumps({"model": "m", "stream": stream, "messages": messages}).encode()


def _whole(kind: str, body: bytes, size: int, reads: str = "at once", path: str = _PATH) -> Ask:
    good = CUT if reads == "stalled" else WHOLE
    return Ask(kind, _post(body, f"size={size}", path), frozenset({good}), reads, crc=zlib.crc32(body))


def _stream(rng: Random, kind: str, chunks: int, gap_ms: int, more: str = "", good: str = WHOLE) -> Ask:
    soak = f"chunks={chunks},gap_ms={gap_ms}{more}"
    return Ask(kind, _post(_body(rng, stream=True), soak), frozenset({good}), chunks=chunks)


def _short(rng: Random) -> Ask:
    return _whole("short", _body(rng), 800)


def _streamed(rng: Random) -> Ask:
    return _stream(rng, "stream", rng.randint(5, 60), rng.choice((0, 2, 10)))


def _commented(rng: Random) -> Ask:
    return _stream(rng, "stream with comments", 4, 5, ",fault=comments")


def _big(rng: Random) -> Ask:
    return _whole("big body", _body(rng, size=rng.choice((100_000, 2_000_000, 10_000_000))), 100)


def _embeddings(rng: Random) -> Ask:
    body = json.dumps({"model": "m", "input": [f"text {rng.randrange(50)}"] * 20}).encode()
    return _whole("embeddings", body, 30_000, path="/v1/embeddings")


def _slow(rng: Random) -> Ask:
    return _whole("slow reader", _body(rng), 1_000_000, "slowly")


def _stalled(rng: Random) -> Ask:
    return _whole("stalled reader", _body(rng), 32_000_000, "stalled")


def _leaver(rng: Random) -> Ask:
    asked = _stream(rng, "client leaves", 1000, 5)
    cut = rng.choice((20, len(asked.raw) - 10, len(asked.raw)))  # within the head, the body, the answer
    return Ask(asked.kind, asked.raw[:cut], frozenset({LEFT}), "leaves", asked.chunks)


def _failing(rng: Random) -> Ask:
    fault, good = rng.choice(_FAULTS)
    if good == CUT:
        return _stream(rng, f"engine: {fault}", 20, 5, f",fault={fault},at={rng.randint(1, 6)}", CUT)
    soak = f"size=10,fault={fault}"
    return Ask(f"engine: {fault}", _post(_body(rng), soak), frozenset({good}))


_FAULTS = [
    ("reset", CUT),
    ("close", CUT),
    ("silent", CUT),
    ("mute", "status 504"),
    ("busy", "status 429"),
    ("broken", "status 500"),
    ("garbage", "status 502"),
]


def _bad(rng: Random) -> Ask:
    kind = rng.choice(list(_BAD))
    raw, status = _BAD[kind]
    return Ask(f"bad: {kind}", raw, frozenset({f"status {status}"}))


_BAD: Mapping[str, tuple[bytes, int]] = {
    "garbage": (b"\x16\x03\x01 hello\r\n\r\n", 400),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
    "large head": (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    "large body": (
        f"POST {_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_LIMIT + 1}\r\n\r\n{{}}".encode(),
        413,
    ),
    "unknown path": (b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    "unknown model": (_post(b'{"model":"nobody","messages":[]}', "size=1"), 404),
}

_KINDS: list[tuple[float, Callable[[Random], Ask]]] = [
    (40, _short),
    (30, _streamed),
    (0.5, _commented),
    (3, _big),
    (6, _embeddings),
    (3, _slow),
    (0.3, _stalled),
    (4, _leaver),
    (6, _failing),
    (5, _bad),
]


_HEAVY = (_big, _big, _slow, _stalled)


def draw(rng: Random, heavy: bool) -> Ask:
    """The next request.  `heavy` ones take memory: all at once they bring it to the height it will have."""
    if heavy:
        return rng.choice(_HEAVY)(rng)
    weights = [weight for weight, _ in _KINDS]
    return rng.choices([make for _, make in _KINDS], weights)[0](rng)
