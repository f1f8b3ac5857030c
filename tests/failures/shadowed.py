"""A whole gateway with a shadow process behind it: clients, production, arms and lane are real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.spec import LimitsSpec, SamplingSpec
from mirror.spec import ArmSpec
from tests.mirror.staging import Stage, experiment, shadow
from tests.support import Engine, Gateway, ask, post, running, until

PATH = "/v1/chat/completions"


def chat(n: int, *, stream: bool = True, size: int = 0) -> bytes:
    """The first turn of conversation `n`, padded to at least `size` bytes."""
    text = f"conversation {n} "
    message = {"role": "user", "content": text}
    body = {"model": "m", "stream": stream, "messages": [message]}
    lacking = size - len(json.dumps(body).encode())
    if lacking > 0:
        message["content"] = text + "x" * lacking
    return json.dumps(body).encode()


@dataclass
class Shadowed:
    """What runs: the gateway, and the shadow process with its listening analysis."""

    gateway: Gateway
    stage: Stage

    @property
    def books(self) -> dict[str, Any]:
        told = self.stage.analysis.of("books")
        return told[-1] if told else {}

    async def settled(self, admitted: int) -> dict[str, Any]:
        """The books once so many copies are in them and none is open any more."""
        async with asyncio.timeout(30):
            while self.books.get("admitted") != admitted or self.books.get("open"):
                await asyncio.sleep(0.02)
        return self.books


def connections(path: str) -> int:
    """How many connections a unix socket has accepted that are open, as the kernel lists them."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(" " + path) and line.split()[5] == "03" for line in lines)


@asynccontextmanager
async def shadowed(
    *production: Engine,
    arms: tuple[ArmSpec, ...],
    limits: LimitsSpec | None = None,
    copy_bytes: int = 8 << 20,
    lane_bytes: int = 64 << 20,
    max_inflight: int = 1_000,
    timeout_s: float = 600.0,
    **shadow_limits: Any,
) -> AsyncIterator[Shadowed]:
    """All conversations are copied, from the first request on: the lane stands before the first is sent."""
    samplings = [SamplingSpec("fp8-kv", None, 1.0, b"salt")]
    async with running(
        *production, limits=limits, experiments=samplings, copy_bytes=copy_bytes, lane_bytes=lane_bytes
    ) as gateway:
        told = experiment(*arms, max_inflight=max_inflight, timeout_s=timeout_s)
        async with shadow(
            gateway.run_dir, told, copy_bytes=copy_bytes, lane_bytes=lane_bytes, **shadow_limits
        ) as stage:
            running_now = Shadowed(gateway, stage)
            lane = str(gateway.run_dir / "lane.sock")
            await until(lambda: connections(lane) > 0, 30)  # the worker looks for the lane now and then
            yield running_now
            await stage.analysis.close()  # whose line to the worker would outlive the shadow process


async def served(gateway: Gateway, body: bytes, *extra: str) -> bool:
    """One request; whether its answer was whole and good."""
    got = await ask(gateway.port, post(body, PATH, *extra))
    return got.status == 200 and got.is_whole
