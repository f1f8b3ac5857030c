"""Observation frames as the shadow sends them, and the analysis process that takes them, on real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import msgpack

from analysis.process import serve_analysis
from analysis.spec import AnalysisSpec, EmbedderSpec, ExperimentSpec

MS = 1_000_000
SPEC = ExperimentSpec(
    "kv", "llama", ("quick", "same"), window_s=0.5, calibration_s=2.0, calibration_pairs=20, margin=0.05
)


def _answer(arm: str, twin: int, at_ns: int, gap_ms: float) -> dict[str, Any]:
    """A streamed chat completion of ten tokens."""
    reads: list[list[Any]] = []
    for n in range(10):
        chunk: dict[str, Any] = {
            "choices": [{"index": 0, "delta": {"content": f" w{n}"}, "finish_reason": None}]
        }
        reads.append([at_ns + int((20 + n * gap_ms) * MS), b"data: %s\n\n" % json.dumps(chunk).encode()])
    last: dict[str, Any] = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 10},
    }
    end_ns = reads[-1][0] + MS
    reads.append([end_ns, b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(last).encode()])
    return {
        "arm": arm,
        "twin": twin,
        "order": 0,
        "sent_ns": at_ns,
        "head_ns": at_ns + 5 * MS,
        "status": 200,
        "content_type": "text/event-stream",
        "reads": reads,
        "end_ns": end_ns,
        "ending": "complete",
    }


def pair(n: int, phase: str, *, spec: ExperimentSpec = SPEC) -> list[Any]:
    """The n-th pair, 100 ms after the one before: "quick" has a token every 6 ms, the other arms every 10."""
    at_ns = 10**12 + n * 100 * MS
    jitter = 1 + 0.05 * ((n * 7919) % 11 - 5) / 5
    arms = [("control", 10.0), *((name, 6.0 if name == "quick" else 10.0) for name in spec.candidates)]
    twins = (0, 1) if phase == "calibration" else (0,)
    answers = [_answer(arm, twin, at_ns, gap * jitter) for arm, gap in arms for twin in twins]
    if phase == "calibration" and n % 10 == 5:  # else it goes on, to see answers of the control that differ
        when, event = answers[1]["reads"][9]
        answers[1]["reads"][9] = [when, event.replace(b"w9", b"w8")]
    body = {
        "experiment": spec.name,
        "id": f"r{n}",
        "phase": phase,
        "at_ns": at_ns,
        "received_ns": at_ns - 3 * MS,
        "path": "/v1/chat/completions",
        "stream": True,
        "root": 2 * n,
        "turn": 0,
        "answers": answers,
        "production": _answer("production", 0, at_ns - MS, 11.0),
    }
    return ["pair", body]


def books(admitted: int, paired: int, **dropped: int) -> list[Any]:
    """Cumulative books."""
    return ["books", {"experiment": SPEC.name, "admitted": admitted, "paired": paired, "dropped": dropped}]


def status(*, up: bool = True, process: str = "worker-0", draining: bool = False) -> list[Any]:
    """A worker's status with one engine."""
    engine = {"fleet": "llama", "id": 0, "url": "http://127.0.0.1:1", "kind": "vllm", "up": up, "inflight": 2}
    body = {"process": process, "pid": 1, "at_ns": 1, "listening": True, "draining": draining}
    return [
        "status",
        {**body, "engines": [{**engine, "models": ["m"], "error": None}], "counts": {"requests": 3}},
    ]


class Shadow:
    """A peer on the observations socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._unpacker = msgpack.Unpacker()

    async def send(self, *frames: list[Any]) -> None:
        for frame in frames:
            self.writer.write(msgpack.packb(frame))
            await self.writer.drain()

    async def told(self) -> Any:
        """The next message from the analysis; None once it has hung up."""
        while True:
            for message in self._unpacker:
                return message
            data = await asyncio.wait_for(self.reader.read(65536), 30)
            if not data:
                return None
            self._unpacker.feed(data)


@dataclass(frozen=True, slots=True)
class Running:
    """A running analysis process and where to talk to it."""

    url: str
    http: aiohttp.ClientSession
    run_dir: Path
    log: Path

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self.http.get(self.url + path) as answer:
            return answer.status, await answer.read()

    async def until(self, path: str, holds: Any) -> Any:
        """Ask until the JSON that comes back is as wanted."""
        for _ in range(1200):
            _, body = await self.get(path)
            value = json.loads(body)
            if holds(value):
                return value
            await asyncio.sleep(0.025)
        raise AssertionError(f"{path} never became as wanted: {value}")

    @asynccontextmanager
    async def shadow(self) -> AsyncIterator[Shadow]:
        reader, writer = await asyncio.open_unix_connection(str(self.run_dir / "observations.sock"))
        try:
            yield Shadow(reader, writer)
        finally:
            writer.close()


def analysis_spec(folder: Path, *experiments: ExperimentSpec) -> AnalysisSpec:
    """An analysis process that keeps everything under `folder`."""
    return AnalysisSpec("127.0.0.1", 0, str(folder / "run"), str(folder / "state"), experiments, "0.1.0")


async def admin_url(run_dir: Path) -> str:
    """Where the admin server listens, once it does."""
    for _ in range(1200):
        if (run_dir / "admin.addr").exists() and (run_dir / "observations.sock").exists():
            return f"http://{(run_dir / 'admin.addr').read_text().strip()}"
        await asyncio.sleep(0.025)
    raise AssertionError("the analysis process did not start")


@asynccontextmanager
async def analysis(
    folder: Path, *experiments: ExperimentSpec, embedders: tuple[EmbedderSpec, ...] = ()
) -> AsyncIterator[Running]:
    """The analysis process, in this one, until the block ends."""
    spec = replace(analysis_spec(folder, *experiments), embedders=embedders)
    run_dir = Path(spec.run_dir)
    for left in ("admin.addr", "observations.sock"):
        (run_dir / left).unlink(missing_ok=True)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve_analysis(spec, stop))
        try:
            url = await admin_url(run_dir)
            async with aiohttp.ClientSession() as http:
                yield Running(url, http, run_dir, folder / "state" / SPEC.name / "log.msgpack")
        finally:
            stop.set()
