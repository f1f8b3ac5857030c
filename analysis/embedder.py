"""What are texts to a model of embeddings?  Asked of a server that speaks OpenAI's `/v1/embeddings`."""

import http.client
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

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
    """One server, over one connection that is kept; every call takes its time, about `timeout_s` at most."""

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
        except (msgspec.DecodeError, UnicodeDecodeError):
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
        is_kept = self._connection is not None
        try:
            return self._exchange(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            # A kept connection that the server has closed meanwhile says nothing of the server.
            if not is_kept or isinstance(error, TimeoutError | ValueError):
                raise _unreachable(error) from None
        try:
            return self._exchange(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise _unreachable(error) from None

    def _exchange(self, body: bytes) -> tuple[int, bytes]:
        url, until_s = urlsplit(self._spec.url), monotonic() + self._spec.timeout_s
        if self._connection is None:
            host, wait_s = url.hostname or "", self._spec.timeout_s
            if url.scheme == "https":
                trusted = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(
                    host, url.port, timeout=wait_s, context=trusted
                )
            else:
                self._connection = http.client.HTTPConnection(host, url.port, timeout=wait_s)
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
            if monotonic() > until_s:
                raise TimeoutError
        answer.close()  # it was read to its end: the connection is free for the next one
        return answer.status, b"".join(pieces)


def _unreachable(error: Exception) -> NoVectors:
    if isinstance(error, TimeoutError):
        return NoVectors(UNREACHABLE, "it does not answer in time")
    why = getattr(error, "strerror", None) or type(error).__name__
    return NoVectors(UNREACHABLE, f"it cannot be asked ({why})")
