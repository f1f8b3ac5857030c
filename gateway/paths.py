"""What a request's path asks for: inference to relay, something of the gateway's own, or nothing allowed.

The decision is made on a normalised copy; engines get the target as the client wrote it.  What could be
read in two ways (dot segments, backslashes, an encoded slash before an administrative word) is refused,
so that no spelling of an administrative path gets past.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import unquote_to_bytes

from wire.stateless import STATELESS


class Kind(Enum):
    """What is done with a request."""

    RELAY = "relay"
    MODELS = "models"  # GET /v1/models: the fleets' models, merged
    HEALTH = "health"  # answered by the gateway itself
    OPTIONS = "options"  # what may be asked: the gateway says it, except to browsers whose engines do
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Asked:
    """The normalised path without its query, and what is done with it."""

    kind: Kind
    path: str
    reason: str = ""


# Inside /v1 and yet administrative: they change what an engine serves.
_ADMINISTRATIVE_V1: Final = frozenset({"/v1/load_lora_adapter", "/v1/unload_lora_adapter"})
_HEALTH: Final = frozenset({"/health", "/ping"})


def read(method: bytes, target: bytes, opened: Collection[str] = ()) -> Asked:
    """Say what `target` asks for.  `opened` are administrative paths that the config lets through."""
    raw = target.partition(b"?")[0]
    # The common case first: nothing that needs normalising.
    if raw == b"/v1/chat/completions" and method != b"OPTIONS":
        return _CHAT
    if raw == b"*" and method == b"OPTIONS":
        return Asked(Kind.OPTIONS, "*")
    if not raw.startswith(b"/"):
        return Asked(Kind.REFUSED, "", "a path must begin with /")
    if b"#" in target:
        return Asked(Kind.REFUSED, "", "a fragment is the client's own; some readers end the path there")
    decoded = unquote_to_bytes(raw)
    if b"%2f" in raw.lower() and b"/models/" not in raw:
        return Asked(Kind.REFUSED, "", "an encoded slash is only taken in a model's name")
    if b"\\" in decoded or b"\0" in decoded or any(byte < 0x20 for byte in decoded):
        return Asked(Kind.REFUSED, "", "the path holds a character that readers disagree about")
    segments = [part for part in decoded.split(b"/") if part]
    if any(part.partition(b";")[0] in (b".", b"..") for part in segments):
        return Asked(Kind.REFUSED, "", "dot segments are not followed")
    path = "/" + b"/".join(segments).decode("utf-8", "replace")
    if path in opened:
        return Asked(Kind.RELAY, path)
    if path in _HEALTH and method in (b"GET", b"HEAD", b"OPTIONS"):
        return Asked(Kind.OPTIONS if method == b"OPTIONS" else Kind.HEALTH, path)
    if path == "/v1/models" and method in (b"GET", b"HEAD"):
        return Asked(Kind.MODELS, path)
    if path in _ADMINISTRATIVE_V1 or not (path.startswith("/v1/") or path in STATELESS):
        return Asked(
            Kind.REFUSED, path, f"{path} is not relayed; list it under the engine's allow_paths to open it"
        )
    return Asked(Kind.OPTIONS if method == b"OPTIONS" else Kind.RELAY, path)


_CHAT: Final = Asked(Kind.RELAY, "/v1/chat/completions")
