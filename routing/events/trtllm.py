"""TensorRT-LLM's KV events, of `POST /kv_cache_events`, as vLLM would have published them.

Reading takes them away, and each has a number: so each becomes a message of its own with that number, and
what was missed shows as it does elsewhere. Of several attention windows the largest is the one that keeps
whole prefixes.

A block is at one level of the cache at a time: 0 is the GPU, 1 the host's memory, what follows are disks.
Where it moves (`updated`) nothing but its hash is told. A removal names no level, and of a block and those
that continue it maybe no other: they cannot be found without it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from routing.events.decode import WHOLLY

_MOST_RANKS: Final = 64
_GPU: Final = 0
_MEDIUM: Final = ("GPU", "CPU", "DISK")


class Translator:
    """One engine's events. Keeps the largest window and the block size, by rank."""

    def __init__(self) -> None:
        self._windows: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self.unread = 0
        """Entries that are no events."""

    def take(self, answer: bytes) -> list[tuple[int, int, bytes]]:
        """The messages in an answer: rank, number, and the batch. Raises ValueError for what is no list."""
        try:
            said = msgspec.json.decode(answer)
        except RecursionError:
            raise ValueError("lists in lists without end") from None
        if not isinstance(said, list):
            raise ValueError("no list of events")
        found: list[tuple[int, int, bytes]] = []
        for one in said:
            try:
                rank, number = one.get("attention_dp_rank") or 0, one["event_id"]
                if type(rank) is not int or not 0 <= rank < _MOST_RANKS:
                    raise TypeError
                if type(number) is not int or not 0 <= number < 1 << 63:
                    raise TypeError
                message = msgspec.msgpack.encode([None, self._events(rank, one), rank])
            except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
                self.unread += 1
                continue
            found.append((rank, number, message))
        return found

    def _events(self, rank: int, said: Mapping[str, Any]) -> list[dict[str, Any]]:
        data, window = said["data"], said.get("window_size")
        kind = data["type"]
        if type(window) is int:
            self._windows[rank] = max(window, self._windows.get(rank, 0))
            if window < self._windows[rank]:
                return []
        if kind == "created":
            return [{"type": "AllBlocksCleared"}]
        if kind == "removed":
            return [_removed([_hash(one) for one in data["block_hashes"]], wholly=True)]
        if kind == "updated":
            return _moved(_hash(data["block_hash"]), data.get("cache_level"))
        if kind == "stored":
            parent = data["parent_hash"]
            return self._stored(rank, None if parent is None else _hash(parent), data["blocks"])
        return [{"type": str(kind)}]  # counted as what it is: unknown

    def _stored(self, rank: int, parent: Any, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The blocks of one chain, an event for those that follow each other at one level.

        One that is not full, or of something else than tokens, ends it.
        """
        found: list[dict[str, Any]] = []
        size, level = self._sizes.get(rank, 0), None
        for block in blocks:
            said = block["tokens"]
            size = size or len(said)
            tokens = [token["token_id"] for token in said]
            if len(said) != size or not size or not all(type(token) is int for token in tokens):
                break
            self._sizes[rank] = size
            if not found or block.get("cache_level", _GPU) != level:
                level = block.get("cache_level", _GPU)
                found.append(
                    {
                        "type": "BlockStored", "block_hashes": [], "parent_block_hash": parent,
                        "token_ids": [], "block_size": size, "medium": _medium(level), "extra_keys": [],
                        "lora_id": block.get("lora_id") or None, "cache_salt": _salt(block),
                    }
                )  # fmt: skip
            parent = _hash(block["block_hash"])
            found[-1]["block_hashes"].append(parent)
            found[-1]["token_ids"] += tokens
            found[-1]["extra_keys"].append(_images(block, said))
        return found


def _images(block: Mapping[str, Any], said: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """What tells the block apart from others of the same tokens."""
    extra = [token.get("token_extra_id") or 0 for token in said]
    keys: list[Any] = [extra] if any(extra) else []
    keys += [[one["hash"], one.get("start_offset")] for one in block.get("mm_keys") or ()]
    return keys or None


def _salt(block: Mapping[str, Any]) -> str | None:
    salt = block.get("cache_salt")
    return None if salt is None else str(salt)


def _moved(own: int | bytes, level: Any) -> list[dict[str, Any]]:
    """`level` is the difference; None where something else was updated."""
    if not isinstance(level, Mapping) or level["old_value"] == level["new_value"]:
        return []
    there = {
        "type": "BlockStored", "block_hashes": [own], "parent_block_hash": None, "token_ids": [],
        "block_size": 0, "medium": _medium(level["new_value"]),
    }  # fmt: skip
    return [there, _removed([own], medium=_medium(level["old_value"]))]


def _removed(hashes: list[int | bytes], *, wholly: bool = False, medium: str = "GPU") -> dict[str, Any]:
    removed: dict[str, Any] = {"type": "BlockRemoved", "block_hashes": hashes, "medium": medium}
    return {**removed, WHOLLY: True} if wholly else removed


def _medium(level: Any) -> str:
    if type(level) is not int or level < _GPU:
        raise TypeError
    return _MEDIUM[min(level, len(_MEDIUM) - 1)]


def _hash(said: Any) -> int | bytes:
    """A number, or a digest in hexadecimal."""
    if type(said) is int:
        return said
    digest = bytes.fromhex(said) if isinstance(said, str) else b""
    if not digest:
        raise TypeError
    return digest
