"""What a request's head asks for, worked out once for all requests of a connection with the same head."""

from typing import Final

from gateway import decode_body, head, model_name, paths
from gateway.admission.keys import Key
from gateway.admission.refusal import Refused
from gateway.clients import cors, upgrade
from gateway.copied import Asked
from gateway.request_id import request_id
from gateway.service import Service
from mirror.headers import is_copy
from wire.http1 import RequestHead
from wire.response import ResponseHead
from wire.stateless import STATELESS

# What tells proxies before this one to pass events on one by one, unless the engine has its own word on it.
_UNBUFFERED: Final = (
    (b"x-accel-buffering", b"X-Accel-Buffering: no\r\n"),
    (b"cache-control", b"Cache-Control: no-cache\r\n"),
)
_MESSAGES: Final = "/v1/messages"
_BODILESS_METHODS: Final = frozenset({b"GET", b"HEAD", b"DELETE", b"OPTIONS"})


class Ask:
    """A head, read by the rules that `service` had at `generation`.

    `peer` is the client's address; what it says of others before it is believed when it is `trusted`.  That
    is asked anew with each head: connections outlive reloads, those of balancers by days.
    """

    __slots__ = (
        "_engine_heads",
        "_peer",
        "codings",
        "copied",
        "generation",
        "given_id",
        "grant",
        "head",
        "hides_credential",
        "is_copy",
        "is_form",
        "is_head",
        "is_messages",
        "is_opened",
        "is_stateless",
        "key",
        "path",
        "priority",
        "reads_body",
        "session",
        "sized",
        "takes_trailers",
        "trusted",
    )

    def __init__(self, request: RequestHead, service: Service, peer: bytes) -> None:
        self.head = request
        self.generation = service.generation
        self.path = paths.read(request.method, request.target, service.opened_paths)
        self.is_stateless = self.path.path in STATELESS  # it may be asked twice
        self.is_opened = self.path.path in service.opened_paths
        self.grant = service.cors.grant(request) if service.cors is not None else None
        self.is_head = request.method == b"HEAD"
        self.is_messages = self.path.path.startswith(_MESSAGES)  # Anthropic's API, or a part of it
        self.is_copy = is_copy(request.headers)
        self.given_id = request_id(request.field(b"x-request-id"), bytes)
        self.reads_body = request.method == b"POST"
        # By what name the client holds requests together, where it does.
        self.session = b"" if service.sessions.isdisjoint(request.names) else _session(request, service)
        self.codings = decode_body.codings(request)
        self.is_form = model_name.is_form(request.field(b"content-type"))
        self.sized = request.method not in _BODILESS_METHODS  # states a length even when it is 0
        self.takes_trailers = head.takes_trailers(request)
        self.key: Key | None = None  # whose request it is; None where nothing is limited, or nobody known
        self.priority = b""
        self.hides_credential = False
        if service.admission is not None:
            self.key = service.admission.identify(credential(request))
            self.priority = request.field(b"x-shadowlane-priority")
            self.hides_credential = service.admission.knows_keys
        self._peer = peer
        trust = service.trust
        self.trusted = trust is not None and trust.covers(peer.decode())
        self.copied: Asked | None = None  # what of it goes with copies, once one was made
        self._engine_heads: dict[tuple[bytes, bytes, str | None], bytes] = {}

    def again(self, service: Service) -> "Ask":
        """The same head, read by the rules of now."""
        return Ask(self.head, service, self._peer)

    def unidentified(self, service: Service) -> Refused | None:
        """The answer where a key is needed and there is none that is known.

        What a browser asks before it lets a page ask has no credentials (the Fetch standard) and needs none.
        """
        if service.admission is None or self.key is not None or cors.is_preflight(self.head):
            return None
        return service.admission.unidentified(credential(self.head))

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
                trusted=self.trusted,
                hides_credential=self.hides_credential,
            )
            if request is self.head:
                self._engine_heads[key] = made
        return made


def credential(request: RequestHead) -> bytes:
    """What a client shows to prove who it is, or empty; browsers cannot set headers of a WebSocket's."""
    shown = request.field(b"authorization") or request.field(b"x-api-key")
    return shown or (upgrade.key(request) if request.upgrade else b"")


def client_head(response: ResponseHead) -> bytes:
    """The answer's head for a client, but for the lines that differ from answer to answer."""
    made = response.passed
    if not made:
        made = head.to_client(response)
        if response.field(b"content-type").lower().startswith(b"text/event-stream"):
            made += b"".join(line for name, line in _UNBUFFERED if name not in response.names)
        response.passed = made
    return made


def _session(request: RequestHead, service: Service) -> bytes:
    """The first of the fields that name one."""
    for name, value in request.headers:
        if name.lower() in service.sessions and value:
            return value
    return b""
