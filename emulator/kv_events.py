"""KV events on the wire, as vLLM publishes them: a ZMQ PUB socket, and a ROUTER that replays what was missed.

Three frames: topic, sequence number (8 bytes, big-endian, from 0), msgpack of [timestamp, [event map,
...], 0]. A replay request names the first number wanted; the answers end with number -1 and an empty
payload.
"""

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgpack
import zmq
import zmq.asyncio

from emulator.kv_cache import CacheEvent, Cleared, Removed, Stored

_KEPT_BATCHES = 10_000
_END = b"\xff" * 8
_MEDIUM = "GPU"


class KvEvents:
    """Publishes on `port` and replays on the port after it; with port 0 both are any free ones."""

    def __init__(self, host: str, port: int, topic: str, block_size: int) -> None:
        self._topic = topic.encode()
        self._block_size = block_size
        self._sequence = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT_BATCHES)
        self._context = zmq.asyncio.Context()
        self._publisher: zmq.Socket[bytes] = zmq.Context.shadow(self._context).socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        for socket in (self._publisher, self._replay):
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDHWM, 100_000)
        self.endpoint = _bind(self._publisher, host, port)
        self.replay_endpoint = _bind(self._replay, host, port and port + 1)

    def sources(self) -> list[dict[str, Any]]:
        """What /kv_event_sources tells."""
        return [
            {
                "data_parallel_rank": 0,
                "endpoint": self.endpoint,
                "replay_endpoint": self.replay_endpoint,
                "topic": self._topic.decode(),
            }
        ]

    def publish(self, events: Sequence[CacheEvent]) -> None:
        """Send one batch; subscribers that are too slow lose it, the engine never waits."""
        maps = [_event_map(event, self._block_size) for event in events]
        payload = msgpack.packb([datetime.now(UTC).timestamp(), maps, 0])
        number = self._sequence.to_bytes(8, "big")
        self._kept.append((self._sequence, payload))
        self._sequence += 1
        self._publisher.send_multipart((self._topic, number, payload), zmq.DONTWAIT)

    async def serve_replays(self) -> None:
        """Answer replay requests until cancelled."""
        while True:
            frames = await self._replay.recv_multipart()
            if len(frames) != 3 or len(frames[2]) != 8:
                continue
            peer, start = frames[0], int.from_bytes(frames[2], "big")
            for number, payload in list(self._kept):
                if number >= start:
                    await self._replay.send_multipart(
                        (peer, b"", self._topic, number.to_bytes(8, "big"), payload)
                    )
            await self._replay.send_multipart((peer, b"", b"", _END, b""))

    def close(self) -> None:
        """Close both sockets."""
        self._publisher.close()
        self._replay.close()
        self._context.term()


def _bind(socket: Any, host: str, port: int) -> str:
    if port:
        socket.bind(f"tcp://{host}:{port}")
    else:
        port = socket.bind_to_random_port(f"tcp://{host}")
    return f"tcp://{host}:{port}"


def _event_map(event: CacheEvent, block_size: int) -> dict[str, Any]:
    if isinstance(event, Removed):
        return {"type": "BlockRemoved", "block_hashes": event.block_hashes, "medium": _MEDIUM, "group_idx": 0}
    if isinstance(event, Cleared):
        return {"type": "AllBlocksCleared"}
    return {
        "type": "BlockStored",
        "block_hashes": event.block_hashes,
        "parent_block_hash": event.parent,
        "token_ids": event.token_ids,
        "block_size": block_size,
        "lora_id": None,
        "medium": _MEDIUM,
        "lora_name": event.lora or None,
        "extra_keys": _extra_keys(event),
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }


def _extra_keys(event: Stored) -> list[list[str] | None]:
    """Per block: the LoRA's name; on a chain's first block the cache salt too."""
    keys: list[list[str] | None] = []
    for index in range(len(event.block_hashes)):
        names = [event.lora] if event.lora else []
        if event.salt and index == 0 and event.parent is None:
            names.append(event.salt)
        keys.append(names or None)
    return keys
