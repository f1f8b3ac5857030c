"""A recorder as its process runs it, on a lane of a real gateway, and what it has written."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from gateway.metrics import WorkerMetrics
from gateway.recording.process import serve_recording
from gateway.recording.spec import NAME, RecordSpec
from gateway.spec import SamplingSpec
from tests.failures.shadowed import connections
from tests.support import Engine, Gateway, answers, chunk, running, until
from workload.packed import read_lines
from workload.row import Row, from_line

SAMPLING = SamplingSpec(NAME, None, 1.0, b"salt")
KEY = b"k" * 32


def answer(text: str, prompt_tokens: int, output_tokens: int, cached: int = 0) -> list[bytes]:
    """A streamed chat answer with its usage, in pieces as an engine sends them."""
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    events: list[dict[str, Any]] = [
        {"id": "1", "choices": [{"index": 0, "delta": {"content": word}}]} for word in text.split(" ")
    ]
    events += [{"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    events += [{"id": "1", "choices": [], "usage": usage}]
    lines = [f"data: {json.dumps(one)}\n\n".encode() for one in events] + [b"data: [DONE]\n\n"]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *map(chunk, lines), b"0\r\n\r\n"]


def chat(*messages: str, model: str = "m", **more: Any) -> bytes:
    """A chat body; users and assistants take turns."""
    roles = ("user", "assistant")
    said = [{"role": roles[at % 2], "content": text} for at, text in enumerate(messages)]
    return json.dumps({"model": model, "stream": True, "messages": said, **more}).encode()


def rows(folder: Path) -> list[Row]:
    """Everything that is written in a folder, in the order in which it was."""
    files = sorted(path for path in folder.iterdir() if ".jsonl" in path.name)
    return [from_line(line) for path in files for line in read_lines(path)]


def at_rest(folder: Path) -> tuple[bytes, set[int]]:
    """All bytes in a folder's files, and the rights on them."""
    files = list(folder.iterdir())
    return b"".join(path.read_bytes() for path in files), {path.stat().st_mode & 0o777 for path in files}


def sidecar(folder: Path) -> dict[str, Any]:
    """What a folder's only recording says of itself."""
    (told,) = [json.loads(path.read_text()) for path in folder.iterdir() if path.suffix == ".json"]
    return dict(told)


@dataclass
class Recorded:
    """What runs: the gateway, and the recorder beside it."""

    gateway: Gateway
    folder: Path
    stop: asyncio.Event
    task: "asyncio.Task[None]"

    async def ended(self) -> list[Row]:
        """The rows once the recorder has ended as it is told to."""
        self.stop.set()
        await asyncio.wait_for(self.task, 30)
        return rows(self.folder)


@asynccontextmanager
async def recorded(folder: Path, *engines: Engine, **more: Any) -> AsyncIterator[Recorded]:
    """A gateway that records every conversation into `folder`, from the first request on."""
    WorkerMetrics(engines=(), fleets=())  # what a first one costs is no part of any test's time
    made = engines or (Engine(answers(*answer("one two", 20, 2))),)
    async with running(*made, record=SAMPLING) as gateway, recording(gateway, folder, **more) as there:
        yield there


@asynccontextmanager
async def recording(gateway: Gateway, folder: Path, **more: Any) -> AsyncIterator[Recorded]:
    """A recorder for a gateway that runs, once the gateway has found it."""
    spec = RecordSpec(str(gateway.run_dir), str(folder), KEY, **more)
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(serve_recording(spec, stop, structlog.get_logger()))
    try:
        lane = str(gateway.run_dir / "record.sock")
        await until(lambda: connections(lane) > 0, 30)
        yield Recorded(gateway, folder, stop, task)
    finally:
        stop.set()
        await asyncio.wait_for(task, 30)
