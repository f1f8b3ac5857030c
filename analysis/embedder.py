"""What are texts to a model of embeddings?  Asked of a server that speaks OpenAI's `/v1/embeddings`."""

import http.client
import io
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from time import monotonic
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from analysis.spec import EmbedderSpec

UNREACHABLE: Final = "unreachable"  # nobody is there, or it does not answer in time
REFUSED: Final = "refused"  # another status than 200
MALFORMED: Final = "malformed"  # an answer that is not what was asked for

_MOST_BYTES = 16 << 20


class NoVectors(Exception):
    """There are none: `reason` says of which kind that is, the message what came, and nothing of any text."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Vector]


_answer = msgspec.json.Decoder(_Answer)


class Embedder:
    """One server, over one connection that is kept.

    Every call has ended `timeout_s` after its begin, however slowly the server speaks; only the system's own
    search for a host's address may take longer.
    """

    def __init__(self, spec: EmbedderSpec) -> None:
        self._spec = spec
        self._connection: http.client.HTTPConnection | None = None

    def vectors(self, texts: Sequence[str]) -> Mapping[str, Sequence[float]]:
        """Each text's vector, all of one length.  NoVectors where there are none."""
        status, body = self._post(msgspec.json.encode({"model": self._spec.model, "input": list(texts)}))
        if status != 200:
            raise NoVectors(REFUSED, f"it answered {status}")
        try:
            data = _answer.decode(body).data
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NoVectors(MALFORMED, "its answer is not a list of embeddings") from None
        found = {one.index: one.embedding for one in data}
        if sorted(found) != list(range(len(texts))) or len(data) != len(texts):
            raise NoVectors(MALFORMED, f"it gave {len(data)} embeddings of {len(texts)} texts")
        lengths = {len(vector) for vector in found.values()}
        if len(lengths) > 1 or 0 in lengths or not all(map(isfinite, (x for v in found.values() for x in v))):
            raise NoVectors(MALFORMED, "its embeddings are of several lengths, empty or not finite")
        return {text: found[at] for at, text in enumerate(texts)}

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def interrupt(self) -> None:
        """Have a call that another thread waits in end now."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        """Status and body; once more over a new connection where a kept one turns out to be closed."""
        is_kept, until_s = self._connection is not None, monotonic() + self._spec.timeout_s
        try:
            return self._exchange(body, until_s)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            # A kept connection that the server has closed meanwhile says nothing of the server.
            if not is_kept or isinstance(error, TimeoutError | ValueError):
                raise _unreachable(error) from None
        try:
            return self._exchange(body, until_s)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise _unreachable(error) from None

    def _exchange(self, body: bytes, until_s: float) -> tuple[int, bytes]:
        url = urlsplit(self._spec.url)
        if self._connection is None:
            self._connection = _connection(url, until_s)
        self._connection.sock.settimeout(_left_s(until_s))
        self._connection.response_class = partial(_response, until_s)  # type: ignore[assignment]
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if self._spec.api_key is not None:
            headers["authorization"] = f"Bearer {self._spec.api_key}"
        self._connection.request("POST", f"{url.path.rstrip('/')}/v1/embeddings", body, headers)
        answer, pieces, size = self._connection.getresponse(), [], 0
        while piece := answer.read1(1 << 16):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                self.close()
                raise NoVectors(MALFORMED, f"its answer is longer than {_MOST_BYTES >> 20} MiB")
        answer.close()  # it was read to its end: the connection is free for the next one
        if answer.will_close:
            self.close()
        return answer.status, b"".join(pieces)


class _Reader(io.RawIOBase):
    """What comes over a connection until `until_s`; TimeoutError after it.

    The connection's own timeout begins anew with every byte, and so would never end for who drips.
    """

    def __init__(self, line: socket.socket, until_s: float) -> None:
        self._line, self._until_s = line, until_s
        self._raw = line.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        self._line.settimeout(_left_s(self._until_s))
        return self._raw.readinto(into)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _response(until_s: float, line: socket.socket, **how: Any) -> http.client.HTTPResponse:
    found = http.client.HTTPResponse(line, **how)
    found.fp.close()
    found.fp = io.BufferedReader(_Reader(line, until_s))
    return found


def _connection(url: SplitResult, until_s: float) -> http.client.HTTPConnection:
    """One that is open.  Every address of the host has its share of the time."""
    host, is_secret = url.hostname or "", url.scheme == "https"
    port = url.port or (443 if is_secret else 80)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(address[0]) for *_, address in found]
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            line = socket.create_connection((address, port), _left_s(until_s) / left)
            break
        except OSError:
            if left == 1:
                raise
    try:
        line.settimeout(_left_s(until_s))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_secret:
            line = ssl.create_default_context().wrap_socket(line, server_hostname=host)
    except OSError:
        line.close()
        raise
    connection = http.client.HTTPConnection(host, url.port)
    connection.sock = line
    return connection


def _left_s(until_s: float) -> float:
    left_s = until_s - monotonic()
    if left_s <= 0.0:
        raise TimeoutError
    return left_s


def _unreachable(error: Exception) -> NoVectors:
    if isinstance(error, TimeoutError):
        return NoVectors(UNREACHABLE, "it does not answer in time")
    why = getattr(error, "strerror", None) or type(error).__name__
    return NoVectors(UNREACHABLE, f"it cannot be asked ({why})")
