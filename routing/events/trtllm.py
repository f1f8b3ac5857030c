"""TensorRT-LLM's KV events, of `POST /kv_cache_events`, as vLLM would have published them.

Reading takes them away, and each has a number: so each becomes a message of its own with that number, and
what was missed shows as it does elsewhere. Levels of the cache below the GPU's are another tier. Of several
attention windows the largest is the one that keeps whole prefixes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

_MOST_RANKS: Final = 64
_GPU: Final = 0


class Translator:
    """One engine's events. Keeps the largest window and the block size, by rank."""

    def __init__(self) -> None:
        self._windows: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self.unread = 0
        """Entries that are no events."""

    def take(self, answer: bytes) -> list[tuple[int, int, bytes]]:
        """The messages in an answer: rank, number, and the batch. Raises ValueError for what is no list."""
        said = msgspec.json.decode(answer)
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
                events = self._events(rank, one)
            except (AttributeError, KeyError, TypeError, ValueError, IndexError):
                self.unread += 1
                continue
            found.append((rank, number, msgspec.msgpack.encode([None, events, rank])))
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
            return [{"type": "BlockRemoved", "block_hashes": list(data["block_hashes"])}]
        if kind == "updated":
            level = data.get("cache_level")
            moved = isinstance(level, dict) and level.get("new_value", _GPU) != _GPU
            return [{"type": "BlockRemoved", "block_hashes": [data["block_hash"]]}] if moved else []
        if kind == "stored":
            return self._stored(rank, data["parent_hash"], data["blocks"])
        return [{"type": str(kind)}]  # counted as what it is: unknown

    def _stored(self, rank: int, parent: Any, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The blocks of one chain on the GPU; one that is not full, or elsewhere, ends it."""
        hashes: list[Any] = []
        tokens: list[Any] = []
        extras: list[Any] = []
        size = self._sizes.get(rank, 0)
        for block in blocks:
            said = block["tokens"]
            size = size or len(said)
            if block.get("cache_level", _GPU) != _GPU or len(said) != size or not size:
                break
            hashes.append(block["block_hash"])
            tokens += [token["token_id"] for token in said]
            more = [token.get("token_extra_id") or 0 for token in said]
            extras.append([more] if any(more) else None)
        if not hashes:
            return []
        self._sizes[rank] = size
        return [
            {
                "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent,
                "token_ids": tokens, "block_size": size, "extra_keys": extras,
            }
        ]  # fmt: skip
