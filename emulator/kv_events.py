"""KV events on the wire, as vLLM and SGLang publish them: a ZMQ PUB socket, and a ROUTER that replays.

Three frames: topic, sequence number (8 bytes, big-endian, from 0), msgpack of a batch (`kv_dialects`).  A
replay request names the first number wanted; the answers end with number -1 and an empty payload.  SGLang
also tells its load, on a socket of its own.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgpack
import zmq
import zmq.asyncio

from emulator.kv_cache import CacheEvent
from emulator.kv_dialects import packed
from emulator.params import EngineParams

_KEPT_BATCHES = 10_000
_END = b"\xff" * 8
_LOAD_EVERY_S = 0.2

# Running requests, waiting ones, blocks in use.
Load = Callable[[], tuple[int, int, int]]


class KvEvents:
    """Publishes on `kv_events_port`, replays on the port after it, tells its load on the one after that.

    With port 0 all are any free ones.  With `kv_events_to` it connects there to publish, and replays nothing.
    """

    def __init__(self, host: str, params: EngineParams) -> None:
        port = params.kv_events_port or 0
        self._params = params
        self._topic = params.kv_events_topic.encode()
        self._sequence = 0
        self._losing = Random(f"kv events {params.seed}")
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT_BATCHES)
        self._context = zmq.asyncio.Context()
        plain: zmq.Context[zmq.Socket[bytes]] = zmq.Context.shadow(self._context)
        self._publisher: zmq.Socket[bytes] = plain.socket(zmq.PUB)
        self._loads: zmq.Socket[bytes] = plain.socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        for socket in (self._publisher, self._replay, self._loads):
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDHWM, 100_000)
        self.replay_endpoint = _bind(self._replay, host, port and port + 1)
        self.load_endpoint = _bind(self._loads, host, port and port + 2)
        if params.kv_events_to:
            self._publisher.connect(params.kv_events_to)
            self.endpoint = params.kv_events_to
        else:
            self.endpoint = _bind(self._publisher, host, port)

    @property
    def is_sglang(self) -> bool:
        """Whether it speaks as SGLang does."""
        return self._params.kv_events_form == "sglang"

    def sources(self) -> dict[str, Any]:
        """What vLLM's /kv_event_sources tells: by data-parallel rank."""
        if self.is_sglang:
            return {}
        return {
            "0": {
                "enable_kv_cache_events": True,
                "publisher": "zmq",
                "endpoint": self.endpoint,
                "replay_endpoint": self.replay_endpoint,
                "buffer_steps": _KEPT_BATCHES,
                "hwm": 100_000,
                "max_queue_size": 100_000,
                "topic": self._topic.decode(),
            }
        }

    def described(self) -> dict[str, Any]:
        """`kv_events` in SGLang's /server_info."""
        return {
            "publisher": "zmq",
            "endpoint_host": "*",
            "endpoint_port_base": _port(self.endpoint),
            "topic": self._topic.decode(),
            "block_size": self._params.block_size,
            "dp_size": 1,
            "replay_endpoint_port_base": _port(self.replay_endpoint),
            "load_endpoint_port_base": _port(self.load_endpoint),
            "load_topic": "load",
        }

    def publish(self, events: Sequence[CacheEvent]) -> None:
        """Send one batch; subscribers that are too slow lose it, the engine never waits."""
        form, size = self._params.kv_events_form, self._params.block_size
        payload = packed(form, events, size, datetime.now(UTC).timestamp())
        number = self._sequence.to_bytes(8, "big")
        self._kept.append((self._sequence, payload))
        self._sequence += 1
        if self._losing.random() >= self._params.kv_events_loss:
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

    async def tell_load(self, load: Load) -> None:
        """Tell the load every so often, as SGLang does, until cancelled."""
        number = 0
        while True:
            running, waiting, blocks = load()
            tokens, most = (count * self._params.block_size for count in (blocks, self._params.num_blocks))
            stat = ["LoadStat", running, waiting, tokens, most, 0, 0, tokens, self._params.max_num_seqs, 0, 0]
            frames = (b"load", number.to_bytes(8, "big", signed=True), msgpack.packb(stat))
            self._loads.send_multipart(frames, zmq.DONTWAIT)
            number += 1
            await asyncio.sleep(_LOAD_EVERY_S)

    def close(self) -> None:
        """Close all sockets."""
        for socket in (self._publisher, self._replay, self._loads):
            socket.close()
        self._context.term()


def _bind(socket: Any, host: str, port: int) -> str:
    if port:
        socket.bind(f"tcp://{host}:{port}")
    else:
        port = socket.bind_to_random_port(f"tcp://{host}")
    return f"tcp://{host}:{port}"


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])
