"""Which requests may ever be copied?  Stateless inference only: what leaves nothing behind at the engine."""

from collections.abc import Iterable
from typing import Final

import msgspec

from mirror.headers import is_copy
from wire.stateless import COMPARED

# Of the Responses API's requests some leave nothing behind: their bodies say so.
_COPIED = COMPARED | {"/v1/responses"}


class _Effects(msgspec.Struct):
    """The fields of a request that make an engine remember it or act in the world."""

    store: bool | None = None
    background: bool | None = None
    previous_response_id: msgspec.Raw = msgspec.Raw()
    conversation: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()
    mcp_servers: msgspec.Raw = msgspec.Raw()
    container: msgspec.Raw = msgspec.Raw()
    tools: list[dict[str, msgspec.Raw]] | None = None


# Of these paths a body may say so.
_MAY: Final = frozenset({"/v1/responses", "/v1/messages"})

_effects = msgspec.json.Decoder(_Effects)


def copyable(path: str, headers: Iterable[tuple[bytes, bytes]] = (), *, stateful: bool = False) -> bool:
    """Whether a request of this path may ever be copied.

    `stateful` is what `is_stateful` says of its body.  A request that carries the marker of a copy never is.
    """
    return not stateful and _bare(path) in _COPIED and not is_copy(headers)


def may_be_stateful(path: str) -> bool:
    """Whether of this path's requests some are: of no other does the body have to be read."""
    return _bare(path) in _MAY


def is_stateful(path: str, body: bytes | memoryview) -> bool:
    """Whether a body asks the engine to remember, to fetch what it remembers, or to use tools of its own.

    Only `/v1/responses` (which stores unless told not to) and `/v1/messages` can; no other body is read.
    """
    bare = _bare(path)
    if bare not in _MAY:
        return False
    try:
        asked = _effects.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # what cannot be read cannot be called harmless
    if any(_given(part) for part in (asked.mcp_servers, asked.container)):
        return True
    if bare == "/v1/messages":
        # A tool without a `type`, or "custom", is the client's own; the others run at the server.
        return any(_text(tool.get("type")) not in (None, "custom") for tool in asked.tools or ())
    return (
        asked.store is not False
        or bool(asked.background)
        or _given(asked.previous_response_id)
        or _given(asked.conversation)
        or _given(asked.prompt)
        or any(_text(tool.get("type")) not in ("function", "custom") for tool in asked.tools or ())
    )


def _bare(path: str) -> str:
    return path.partition("?")[0].rstrip("/")


def _given(part: msgspec.Raw) -> bool:
    return bytes(part).strip() not in (b"", b"null", b"[]", b"{}")


def _text(part: msgspec.Raw | None) -> str | None:
    if part is None:
        return None
    value = msgspec.json.decode(part)
    return value if isinstance(value, str) else repr(value)
