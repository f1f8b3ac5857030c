"""Answers as the mirror sees them: copies go to an arm over a socket, its answers come back as pairs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.readers._choose import reader_of
from analysis.transcript import Content
from mirror.spec import ArmSpec
from tests.failures.support import PATH
from tests.mirror.scripted import SSE_HEAD, Request, chunk, engine
from tests.mirror.staging import copy_frame, experiment, served_frame, shadow, until

Pieces = Sequence[bytes]


def content(answer: dict[str, Any], path: str = PATH) -> Content:
    """What the readers make of one arm's answer, with the instants at which it came."""
    reader = reader_of(path)
    for at_ns, data in answer["reads"]:
        reader.feed(data, at_ns)
    return reader.end(answer["end_ns"])


async def mirrored(
    run_dir: Path, cases: Sequence[Pieces], *, gap_s: float = 0.002, path: str = PATH
) -> list[dict[str, Any]]:
    """Have an arm stream each case's pieces, a moment apart; the pair of each case, in order."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        pieces = cases[int(request.headers["x-session-id"])]
        writer.write(SSE_HEAD)
        for piece in pieces:
            if piece:
                writer.write(chunk(piece))
                await writer.drain()
            await asyncio.sleep(gap_s)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with engine(script) as arm:
        told = experiment(ArmSpec("control", arm.url), max_inflight=2 * len(cases))
        async with shadow(run_dir, told) as stage:
            _, lane = await stage.worker()
            try:
                for n in range(len(cases)):
                    headers = [(b"content-type", b"application/json"), (b"x-session-id", b"%d" % n)]
                    lane.write(copy_frame(str(n), n, headers=headers, path=path) + served_frame(str(n)))
                    await asyncio.sleep(0)
                await until(lambda: len(stage.analysis.of("pair")) == len(cases))
            finally:
                lane.close()
        pairs = {int(pair["id"]): pair for pair in stage.analysis.of("pair")}
    return [pairs[n] for n in range(len(cases))]
