"""The KV events of a step as engines write them: vLLM's maps, its arrays of before, and SGLang's maps."""

from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from emulator.kv_cache import CacheEvent, Cleared, Removed, Stored

_DEVICE = "GPU"
_HOST_OF_VLLM, _HOST_OF_SGLANG = "CPU", "CPU_PINNED"
_SIGN = 1 << 63


def packed(form: str, events: Sequence[CacheEvent], block_size: int, ts_s: float) -> bytes:
    """A batch: `[timestamp, events, data-parallel rank]`."""
    write = FORMS[form]
    message: bytes = msgpack.packb([ts_s, [write(event, block_size) for event in events], 0])
    return message


def _vllm(event: CacheEvent, block_size: int) -> Any:
    """Of what its offloading takes it tells the hashes only: what they are, the device's events said."""
    if isinstance(event, Cleared):
        return {"type": "AllBlocksCleared"}
    medium = _HOST_OF_VLLM if event.is_host else _DEVICE
    group = None if event.is_host else 0
    if isinstance(event, Removed):
        hashes = event.block_hashes
        return {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium, "group_idx": group}
    return {
        "type": "BlockStored",
        "block_hashes": event.block_hashes,
        "parent_block_hash": None if event.is_host else event.parent,
        "token_ids": () if event.is_host else event.token_ids,
        "block_size": 0 if event.is_host else block_size,
        "lora_id": None,
        "medium": medium,
        "lora_name": None if event.is_host else event.lora or None,
        "extra_keys": None if event.is_host else _extra_keys(event),
        "group_idx": group,
        "kv_cache_spec_kind": None if event.is_host else "full_attention",
    }


def _arrays(event: CacheEvent, block_size: int) -> Any:
    """vLLM's before June 2026: positional, the tag first, defaults at the end left out."""
    if isinstance(event, Cleared):
        return ["AllBlocksCleared"]
    medium = _HOST_OF_VLLM if event.is_host else _DEVICE
    if isinstance(event, Removed):
        return ["BlockRemoved", event.block_hashes, medium]
    if event.is_host:
        return ["BlockStored", event.block_hashes, None, (), block_size, None, medium]
    fields = (event.block_hashes, event.parent, event.token_ids, block_size, None, medium)
    return ["BlockStored", *fields, event.lora or None, _extra_keys(event)]


def _sglang(event: CacheEvent, block_size: int) -> Any:
    """Signed hashes, what is None left out, the salt in a field of its own; of the host's memory all too."""
    if isinstance(event, Cleared):
        return {"type": "AllBlocksCleared"}
    hashes = [_signed(one) for one in event.block_hashes]
    medium = _HOST_OF_SGLANG if event.is_host else _DEVICE
    if isinstance(event, Removed):
        return {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium}
    stored = {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": None if event.parent is None else _signed(event.parent),
        "token_ids": event.token_ids,
        "block_size": block_size,
        "medium": medium,
    }
    if event.salt:
        stored["cache_salt"] = event.salt
    if event.lora:
        stored["lora_name"] = event.lora
    return stored


FORMS: dict[str, Callable[[CacheEvent, int], Any]] = {
    "vllm": _vllm,
    "vllm-arrays": _arrays,
    "sglang": _sglang,
}


def _signed(number: int) -> int:
    return number - 2 * _SIGN if number >= _SIGN else number


def _extra_keys(event: Stored) -> list[list[str] | None]:
    """Per block: the LoRA's name; on a chain's first block the cache salt too."""
    keys: list[list[str] | None] = []
    for index in range(len(event.block_hashes)):
        names = [event.lora] if event.lora else []
        if event.salt and index == 0 and event.parent is None:
            names.append(event.salt)
        keys.append(names or None)
    return keys
