"""What a request's head asks for, worked out once for all requests of a connection with the same head."""

from gateway import decode_body, head, model_name, paths
from gateway.request_id import request_id
from gateway.service import Service
from mirror.headers import is_copy
from wire.http1 import RequestHead
from wire.response import ResponseHead

_BODILESS_METHODS = frozenset({b"GET", b"HEAD", b"DELETE", b"OPTIONS"})


class Ask:
    """A head, read by the rules that `service` had at `generation`.

    `peer` is the client's address; what it says of others before it is believed when it is `trusted`.
    """

    __slots__ = (
        "_engine_heads",
        "_peer",
        "_trusted",
        "codings",
        "generation",
        "given_id",
        "grant",
        "head",
        "is_copy",
        "is_form",
        "is_head",
        "is_opened",
        "path",
        "reads_body",
        "sized",
        "takes_trailers",
    )

    def __init__(self, request: RequestHead, service: Service, peer: bytes, *, trusted: bool) -> None:
        self.head = request
        self.generation = service.generation
        self.path = paths.read(request.method, request.target, service.opened_paths)
        self.is_opened = self.path.path in service.opened_paths
        self.grant = service.cors.grant(request) if service.cors is not None else None
        self.is_head = request.method == b"HEAD"
        self.is_copy = is_copy(request.headers)
        self.given_id = request_id(request.field(b"x-request-id"), bytes)
        self.reads_body = request.method == b"POST"
        self.codings = decode_body.codings(request)
        self.is_form = model_name.is_form(request.field(b"content-type"))
        self.sized = request.method not in _BODILESS_METHODS  # states a length even when it is 0
        self.takes_trailers = head.takes_trailers(request)
        self._peer = peer
        self._trusted = trusted
        self._engine_heads: dict[tuple[bytes, bytes, str | None], bytes] = {}

    def engine_head(
        self, authority: bytes, mount: bytes, credential: str | None, request: RequestHead
    ) -> bytes:
        """The head for an engine, but for the lines that differ from request to request.

        `request` is this head, or one that is sent in its place.
        """
        key = (authority, mount, credential)
        made = self._engine_heads.get(key) if request is self.head else None
        if made is None:
            made = head.to_engine(
                request,
                target=mount + request.target,
                authority=authority,
                credential=credential.encode() if credential is not None else None,
                peer=self._peer,
                trusted=self._trusted,
            )
            if request is self.head:
                self._engine_heads[key] = made
        return made


def client_head(response: ResponseHead) -> bytes:
    """The answer's head for a client, but for the lines that differ from answer to answer."""
    made = response.passed
    if not made:
        made = response.passed = head.to_client(response)
    return made
