"""What does one message of an engine's KV events say, in whichever dialect it is?

vLLM and SGLang publish msgpack of a batch: an array `[ts, events, rank]` or a map.  Each event in it is an
array that begins with its tag, as before June 2026, or a map with a `type`; both may be in one batch.  Block
hashes are integers, signed or not, or bytes.  What is not understood is left out event by event, and counted
by reason.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from routing.events.chain import packed

_U64: Final = (1 << 64) - 1
_HASH_BYTES: Final = 8  # vLLM's integer form is the end of its digest
_DEVICE: Final = frozenset({"GPU", "HBM", "DEVICE", "XPU", "NPU", "TPU"})
_HOST: Final = frozenset({"CPU", "CPU_PINNED", "CPU_TIER1", "CPU_TIER2", "HOST", "HOST_PINNED", "DRAM"})
_STORE: Final = frozenset({"STORAGE", "DISK", "SSD", "NVME", "EXTERNAL", "FS", "OBJ"})
DEVICE, HOST, STORE = 0, 1, 2
"""Tiers: what is computed with; the host's memory; disks and stores beyond them."""
TIERS: Final = ("device", "host", "store")
WHOLLY: Final = "wholly"
"""A key of a removal that no engine writes, but `routing.events.trtllm`."""
_WHOLE: Final = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
# The order of an array's fields after its tag; what is behind them is new and is left out.
_STORED: Final = (
    "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
    "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality",
)  # fmt: skip
_REMOVED: Final = ("block_hashes", "medium", "group_idx", "locality")


class Stored(Struct, frozen=True, gc=False):
    """Blocks that can be found from now on.  `hashes` are the engine's own, they continue `parent`.

    `tokens` are `chain.packed`, `block_size` of them for each hash.  `lora` and `salt` tell apart what begins
    a chain; what continues one is of the same.  `extras[i]` is what else block i is told apart by.  There may
    be no more than the hashes: `block_size` is 0 then, and what the blocks are was told before.
    """

    hashes: tuple[int, ...]
    parent: int | None
    tokens: bytes
    block_size: int
    lora: str = ""
    salt: str = ""
    extras: tuple[bytes, ...] | None = None
    group: int | None = None
    tier: int = DEVICE


class Removed(Struct, frozen=True, gc=False):
    """Blocks that can no longer be found in that tier; `wholly`: in none, nor what continues them."""

    hashes: tuple[int, ...]
    group: int | None = None
    tier: int = DEVICE
    wholly: bool = False


class Cleared(Struct, frozen=True, gc=False):
    """All blocks are forgotten."""


Event = Stored | Removed | Cleared


class Batch(Struct, gc=False):
    """One message.  `ignored` counts the events left out by reason; `ts_s` is the engine's wall clock.

    `malformed` says that an event which may have mattered could not be read.
    """

    events: list[Event]
    rank: int | None
    ts_s: float | None
    ignored: Counter[str]
    malformed: bool = False


class Undecodable(Exception):
    """The message is no batch of events."""


class _Skip(Exception):
    """An event that says nothing here; the text is the reason it is counted under."""


def decode(payload: bytes) -> Batch:
    """The batch in a message's last frame.  Raises Undecodable."""
    try:
        said = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise Undecodable(str(error)) from None
    if isinstance(said, Mapping):
        events, ts = said.get("events"), said.get("ts")
        rank = next((said[key] for key in ("data_parallel_rank", "attn_dp_rank") if key in said), None)
    elif isinstance(said, list) and len(said) >= 2:
        ts, events = said[0], said[1]
        rank = said[2] if len(said) > 2 else None
    else:
        raise Undecodable("neither an array of at least two nor a map")
    if not isinstance(events, list):
        raise Undecodable("its events are no array")
    batch = Batch([], rank if type(rank) is int else None, ts if type(ts) is float else None, Counter())
    for event in events:
        try:
            batch.events.append(_event(event))
        except _Skip as reason:
            batch.ignored[str(reason)] += 1
        except (TypeError, ValueError, OverflowError, KeyError, RecursionError):
            batch.ignored["malformed"] += 1
            batch.malformed = True
    return batch


def _event(said: Any) -> Event:
    if isinstance(said, Mapping):
        tag, fields = said.get("type"), said
    elif isinstance(said, list) and said:
        tag = said[0]
        names = _STORED if tag == "BlockStored" else _REMOVED
        fields = dict(zip(names, said[1:], strict=False))
    else:
        raise TypeError("an event is a map or an array")
    if tag == "BlockStored":
        return _stored(fields)
    if tag == "BlockRemoved":
        hashes, tier = _hashes(fields["block_hashes"]), _tier(fields)
        return Removed(hashes, _group(fields), tier, fields.get(WHOLLY) is True)
    if tag == "AllBlocksCleared":
        return Cleared()
    raise _Skip("unknown_tag")


def _tier(fields: Mapping[str, Any]) -> int:
    """Where the blocks are.  Raises _Skip for blocks at another engine, or where nobody knows.

    What is in host memory or in a store has to be loaded first, and is not taken as computed.
    """
    medium, locality = fields.get("medium"), fields.get("locality")
    if locality is not None and locality != "LOCAL":
        raise _Skip("remote")
    if medium is None:
        return DEVICE
    name = medium.upper() if isinstance(medium, str) else ""
    if name in _DEVICE:
        return DEVICE
    if name in _HOST:
        return HOST
    if name in _STORE:
        return STORE
    raise _Skip("tier")


def _group(fields: Mapping[str, Any]) -> int | None:
    group = fields.get("group_idx")
    if group is not None and type(group) is not int:
        raise TypeError("group_idx is no number")
    return group


def _stored(fields: Mapping[str, Any]) -> Stored:
    tier = _tier(fields)
    try:
        return _blocks(fields, tier)
    except (TypeError, ValueError, OverflowError, KeyError):
        if tier == DEVICE:
            raise
        raise _Skip("tier_malformed") from None  # what is on the device is known all the same


def _blocks(fields: Mapping[str, Any], tier: int) -> Stored:
    """Raises _Skip for a group that keeps only a prefix' end: a sliding window, a state."""
    group, kind = _group(fields), fields.get("kv_cache_spec_kind")
    if isinstance(kind, str):
        is_whole = kind in _WHOLE
    else:
        is_whole = group in (None, 0) and not fields.get("kv_cache_spec_sliding_window")
    if not is_whole:
        raise _Skip("group")
    hashes, size = _hashes(fields["block_hashes"]), fields.get("block_size")
    if hashes and not fields.get("token_ids"):  # what they are was told when they were computed
        return Stored(hashes, None, b"", 0, group=group, tier=tier)
    if type(size) is not int or size < 1:
        raise TypeError("block_size is no positive number")
    said = fields["token_ids"]
    if not isinstance(said, list):
        raise TypeError("token_ids is no array")
    if said and isinstance(said[0], list):  # EAGLE's: each token with the one that follows it
        said = [pair[0] for pair in said]
    tokens = packed(said)
    if len(said) != size * len(hashes):
        raise ValueError("not as many tokens as the blocks have")
    parent = fields.get("parent_block_hash")
    parent = None if parent is None else _hash(parent)
    lora, salt = _lora(fields), fields.get("cache_salt")
    if isinstance(fields.get("lora_name"), Mapping):  # some SGLang releases put it there
        salt = fields["lora_name"].get("cache_salt")
    salt = salt if isinstance(salt, str) else ""
    extras = fields.get("extra_keys")
    if extras is not None and any(extras):
        salt, read = _extras(extras, lora, salt, begins=parent is None, blocks=len(hashes))
        return Stored(hashes, parent, tokens, size, lora, salt, read, group, tier)
    return Stored(hashes, parent, tokens, size, lora, salt, None, group, tier)


def _lora(fields: Mapping[str, Any]) -> str:
    name, number = fields.get("lora_name"), fields.get("lora_id")
    if isinstance(name, str):
        return name
    return f"#{number}" if type(number) is int else ""  # its name is not told: a chain of its own


def _extras(
    said: Sequence[Any], lora: str, salt: str, *, begins: bool, blocks: int
) -> tuple[str, tuple[bytes, ...] | None]:
    """The salt, and what else each block is told apart by.

    Where the chain begins, the one plain string beside the adapter's name is the cache salt.
    """
    if len(said) > blocks:
        raise ValueError("extra_keys of more blocks than there are")
    found: list[bytes] = []
    for at, keys in enumerate(said):
        rest = list(keys or ())
        if lora and lora in rest:
            rest.remove(lora)
        words = [key for key in rest if isinstance(key, str)]
        if begins and at == 0 and len(words) == 1 and salt in ("", words[0]):
            salt = words[0]
            rest.remove(salt)
        found.append(b"".join(msgspec.msgpack.encode(key) for key in rest))
    found += [b""] * (blocks - len(found))
    return salt, tuple(found) if any(found) else None


def _hashes(said: Any) -> tuple[int, ...]:
    if not isinstance(said, list):
        raise TypeError("block_hashes is no array")
    return tuple([_hash(one) for one in said])


def _hash(said: Any) -> int:
    """An engine's hash as an unsigned number: signed or not, and of bytes the last eight."""
    if type(said) is int:
        return said & _U64
    if isinstance(said, bytes) and said:
        return int.from_bytes(said[-_HASH_BYTES:], "big")
    raise TypeError("a block hash is a number or bytes")
