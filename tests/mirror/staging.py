"""A shadow process on its lane, with an analysis process that only listens."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import uvloop

from mirror.calling import Call
from mirror.lane import pack_copy, pack_served
from mirror.readiness import Readiness
from mirror.shadow import Shadow
from mirror.spec import ArmSpec, MirrorExperiment, ShadowSpec
from mirror.traffic import Open
from tests.mirror.scripted import chunk


class Analysis:
    """Listens at observations.sock and keeps what comes."""

    def __init__(self, run_dir: Path) -> None:
        self._path = str(run_dir / "observations.sock")
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._greeting = b""
        self.frames: list[list[Any]] = []
        self.open_lines = 0

    async def open(self, phase: str | None = "live", experiment: str = "fp8-kv") -> None:
        try:
            os.unlink(self._path)  # one that closed before leaves its file
        except FileNotFoundError:
            pass
        if phase is not None:
            self._greeting = phase_frame(experiment, phase)
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        await asyncio.sleep(0.01)

    def tell(self, frame: bytes) -> None:
        for writer in self._writers:
            writer.write(frame)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.frames if name == kind]

    @property
    def connections(self) -> int:
        return len(self._writers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.open_lines += 1
        writer.write(self._greeting)
        unpacker = msgpack.Unpacker(max_buffer_size=1 << 28)
        try:
            while data := await reader.read(1 << 16):
                unpacker.feed(data)
                self.frames.extend(unpacker)
        except OSError:
            pass
        finally:
            self.open_lines -= 1
            writer.transport.abort()


def phase_frame(experiment: str, phase: str, epoch: int = 1, **more: Any) -> bytes:
    told = {"experiment": experiment, "phase": phase, "epoch": epoch, **more}
    packed: bytes = msgpack.packb(["phase", told])
    return packed


def copy_frame(id: str, root: int, turn: int = 0, **changes: Any) -> bytes:
    body = {"model": "llama", "messages": [{"role": "user", "content": f"hello {root}"}], "stream": True}
    fields: dict[str, Any] = {
        "experiment": "fp8-kv",
        "path": "/v1/chat/completions",
        "headers": [(b"content-type", b"application/json")],
        "body": json.dumps(body).encode(),
        "received_ns": 1,
        "sent_ns": 2,
        "stream": True,
        **changes,
    }
    return pack_copy(
        fields.pop("experiment"),
        id,
        fields.pop("path"),
        fields.pop("headers"),
        fields.pop("body"),
        root=root,
        turn=turn,
        **fields,
    )


def served_frame(id: str) -> bytes:
    return pack_served(
        "fp8-kv",
        id,
        status=200,
        content_type="text/event-stream",
        reads=[(5, chunk(b"data: {}\n\n")), (6, b"0\r\n\r\n")],
        chunked=True,
        received_ns=1,
        sent_ns=2,
        head_ns=4,
        end_ns=6,
        ending="complete",
    )


@dataclass
class Stage:
    """A shadow process on its lane, with an analysis process that listens."""

    run_dir: Path
    analysis: Analysis
    stop: asyncio.Event
    serving: Shadow

    async def worker(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.run_dir / "lane.sock"))

    @property
    def books(self) -> dict[str, Any]:
        """The last books told."""
        return self.analysis.of("books")[-1]


def experiment(*arms: ArmSpec, **limits: Any) -> MirrorExperiment:
    return MirrorExperiment("fp8-kv", "llama", arms, **limits)


@asynccontextmanager
async def shadow(
    run_dir: Path,
    told: MirrorExperiment,
    phase: str | None = "live",
    *,
    recorded: Open | None = None,
    readiness: Readiness | None = None,
    call: Call | None = None,
    **limits: Any,
) -> AsyncIterator[Stage]:
    """Run the shadow process until the block ends, then stop it and let it close its books."""
    spec = ShadowSpec(str(run_dir), (told,), **limits)
    serving = Shadow(spec, Random(), readiness, recorded=recorded, call=call)
    stage = Stage(run_dir, Analysis(run_dir), asyncio.Event(), serving)
    if phase != "absent":
        await stage.analysis.open(phase, told.name)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(serving.serve(stage.stop))
        await until((run_dir / "lane.sock").exists)
        if phase != "absent":
            await until(lambda: stage.analysis.connections > 0)
            await until(lambda: phase in (None, serving.comparisons[told.name].phase.name))
        try:
            yield stage
            stage.stop.set()
            async with asyncio.timeout(30):
                await running
            await until(lambda: stage.analysis.open_lines == 0)  # the last frames are read
        finally:
            stage.stop.set()
            await stage.analysis.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that must come about."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    """Run a scene on the loop the processes use."""

    async def run() -> None:
        await scene()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
