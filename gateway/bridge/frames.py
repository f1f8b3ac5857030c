"""What workers, the shadow process and the process that learns say to one another: msgpack, checked."""

from array import array
from collections.abc import Mapping
from typing import Any

import msgpack
import msgspec

from wire.tls import ClientTls

SOCKET: str = "bridge.sock"
MOST_BYTES: int = 4 << 20


class MalformedFrame(ValueError):
    """The object is none of these frames: nothing that follows on that connection can be trusted."""


class EnginePlace(msgspec.Struct, frozen=True):
    """Where an engine is asked."""

    id: int
    url: str
    api_key: str | None = None
    model: str | None = None
    tls: ClientTls | None = None


class FleetPlace(msgspec.Struct, frozen=True):
    """A fleet that is to be learned: `model` as the engines know it where they have no name of their own."""

    fleet: str
    model: str | None
    loras: tuple[str, ...]
    engines: tuple[EnginePlace, ...]


class Fleets(msgspec.Struct, frozen=True):
    """From a worker: all fleets it learns of, in place of those it told before."""

    fleets: tuple[FleetPlace, ...]


class Asked(msgspec.Struct, frozen=True):
    """From a worker: a request that went to `engine` and is worth learning.

    `chain` and `ends` are its text chain as little-endian u64 and u32; `sizes` the block sizes wanted.
    """

    fleet: str
    engine: int
    path: str
    body: bytes
    chain: bytes
    ends: bytes
    sizes: tuple[int, ...]


class Copied(msgspec.Struct, frozen=True):
    """From a worker: a request that is worth learning, whose ids will come by themselves (`Ids`)."""

    fleet: str
    id: str
    chain: bytes
    ends: bytes
    sizes: tuple[int, ...]


class Ids(msgspec.Struct, frozen=True):
    """The prompt's token ids of a request of which `Copied` told before.

    From the shadow process those of a copy, as little-endian u32; from a worker production's own, in `text`,
    as the engine wrote them in JSON.
    """

    id: str
    path: str
    body: bytes
    ids: bytes = b""
    text: bytes = b""


class Learned(msgspec.Struct, frozen=True):
    """To every worker: a prompt, how many tokens it has, and its block chain by block size (u64).

    `message_ends` as for `routing.bridge.learner.Bridge.learn`.
    """

    fleet: str
    chain: bytes
    ends: bytes
    tokens: int
    front_bytes: int
    blocks: dict[int, bytes]
    message_ends: tuple[tuple[int, int], ...] = ()


class Template(msgspec.Struct, frozen=True):
    """To every worker: a fleet's template was probed, for the first time or as another than before."""

    fleet: str
    print: int
    """A name for all that it wrote."""
    tail_tokens: int
    features: tuple[int, ...]
    """The kinds of prompts (`routing.bridge.fit.Feature`) that may be learned."""
    are_loops_apart: bool = False
    """Whether it takes a loop's thinking out once that is closed (`routing.loops`)."""


Frame = Fleets | Asked | Copied | Ids | Learned | Template
_KINDS: Mapping[str, type[Frame]] = {
    "fleets": Fleets, "asked": Asked, "copied": Copied, "ids": Ids, "learned": Learned, "template": Template,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _KINDS.items()}


def pack(frame: Frame) -> bytes:
    """The frame as it is written."""
    packed: bytes = msgpack.packb([_NAMES[type(frame)], msgspec.to_builtins(frame, builtin_types=(bytes,))])
    return packed


def unpacker() -> Any:
    """What takes bytes as they come and gives objects for `read`."""
    return msgpack.Unpacker(max_buffer_size=2 * MOST_BYTES, strict_map_key=False)


def read(frame: Any) -> Frame:
    """Check one object.  Raises MalformedFrame."""
    if not isinstance(frame, list) or len(frame) != 2 or not isinstance(frame[0], str):
        raise MalformedFrame("a frame is a pair of its kind and its fields")
    kind = _KINDS.get(frame[0])
    if kind is None:
        raise MalformedFrame(f"no frame is called {frame[0]!r}")
    try:
        return msgspec.convert(frame[1], kind)
    except msgspec.ValidationError as error:
        raise MalformedFrame(str(error)) from None


def words(packed: bytes, code: str) -> "array[int]":
    """`packed` as numbers: "Q" for u64, "I" for u32.  Raises MalformedFrame for half a number."""
    numbers = array(code)
    try:
        numbers.frombytes(packed)
    except ValueError as error:
        raise MalformedFrame(str(error)) from None
    return numbers
