"""What a request's head asks for, worked out once for all requests of a connection that have the same head."""

from gateway import head, model_name, paths
from gateway.service import Service
from mirror.headers import is_copy
from wire.http1 import RequestHead
from wire.response import ResponseHead

# What may name a request in a header and in a log: anything else is replaced by a name of our own.
_LONGEST_ID_BYTES = 128
_BODILESS_METHODS = frozenset({b"GET", b"HEAD", b"DELETE", b"OPTIONS"})


class Ask:
    """A head, read by the rules that `service` had at `generation`.

    `peer` is the client's address; what it says of others before it is believed when it is `trusted`.
    """

    __slots__ = (
        "_engine_heads",
        "_peer",
        "_trusted",
        "generation",
        "given_id",
        "grant",
        "head",
        "is_copy",
        "is_form",
        "is_head",
        "path",
        "reads_body",
        "sized",
    )

    def __init__(self, request: RequestHead, service: Service, peer: bytes, *, trusted: bool) -> None:
        self.head = request
        self.generation = service.generation
        self.path = paths.read(request.method, request.target, service.opened_paths)
        self.grant = service.cors.grant(request) if service.cors is not None else None
        self.is_head = request.method == b"HEAD"
        self.is_copy = is_copy(request.headers)
        self.given_id = _usable_id(request.field(b"x-request-id"))
        self.reads_body = request.method == b"POST" and not request.field(b"content-encoding")
        self.is_form = model_name.is_form(request.field(b"content-type"))
        self.sized = request.method not in _BODILESS_METHODS  # states a length even when it is 0
        self._peer = peer
        self._trusted = trusted
        self._engine_heads: dict[tuple[bytes, bytes, str | None], bytes] = {}

    def engine_head(self, authority: bytes, mount: bytes, credential: str | None) -> bytes:
        """The head for an engine, but for the lines that differ from request to request."""
        key = (authority, mount, credential)
        made = self._engine_heads.get(key)
        if made is None:
            made = self._engine_heads[key] = head.to_engine(
                self.head,
                target=mount + self.head.target,
                authority=authority,
                credential=credential.encode() if credential is not None else None,
                peer=self._peer,
                trusted=self._trusted,
            )
        return made


def client_head(response: ResponseHead) -> bytes:
    """The answer's head for a client, but for the lines that differ from answer to answer."""
    made = response.passed
    if not made:
        made = response.passed = head.to_client(response)
    return made


def _usable_id(given: bytes) -> bytes:
    printable = given.isascii() and given.decode("ascii").isprintable() and b" " not in given
    return given if printable and len(given) <= _LONGEST_ID_BYTES else b""
