"""The bytes of a request as an engine gets them: a head made for it, a body as it came or barely changed."""

from typing import Final

from gateway import decode_body, model_name
from gateway.ask import Ask
from gateway.decode_body import Decoded
from gateway.spec import EngineSpec
from wire.upstream import Pool

# Below this head and body are joined: one small copy is cheaper than a second piece to write.
_JOINED_BELOW_BYTES: Final = 16 << 10


def whole(
    ask: Ask, body: bytes, packed: Decoded | None, spec: EngineSpec, pool: Pool, id: bytes,
    named: str | None = None,
) -> bytes | tuple[bytes, bytes]:  # fmt: skip
    """A request whose body is all there; `named` is its model where the engine has no other name for it."""
    request = ask.head
    model = named if spec.model is None else spec.model
    if packed is not None and packed.whole and (model is not None or packed.is_changed):
        request, body = decode_body.plain(request), packed.body
    if model is not None:
        body = model_name.renamed(body, model, request.field(b"content-type"))
    same = ask.engine_head(pool.authority, pool.mount, spec.api_key, request)
    if not body and not ask.sized:
        return b"%bx-request-id: %b\r\n\r\n" % (same, id)
    if len(body) < _JOINED_BELOW_BYTES:
        return b"%bcontent-length: %d\r\nx-request-id: %b\r\n\r\n%b" % (same, len(body), id, body)
    return b"%bcontent-length: %d\r\nx-request-id: %b\r\n\r\n" % (same, len(body), id), body


def begun(
    ask: Ask, start: bytes, spec: EngineSpec, pool: Pool, id: bytes, named: str | None = None
) -> tuple[bytes, bytes]:
    """A request whose body begins with `start` and goes on; see `piece`."""
    request = ask.head
    body = start
    model = named if spec.model is None else spec.model
    if model is not None:
        body = model_name.renamed(body, model, request.field(b"content-type"))
    if request.content_length is not None:
        framing = b"content-length: %d\r\n" % (request.content_length + len(body) - len(start))
    else:
        framing = b"transfer-encoding: chunked\r\n"
        body = b"%x\r\n%b\r\n" % (len(body), body)
    same = ask.engine_head(pool.authority, pool.mount, spec.api_key, request)
    return b"%b%bx-request-id: %b\r\n\r\n" % (same, framing, id), body


def piece(ask: Ask, data: bytes, *, last: bool) -> bytes:
    """A further piece of such a body; the `last` may be empty."""
    if ask.head.content_length is not None:
        return data
    framed = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
    return framed + b"0\r\n\r\n" if last else framed
