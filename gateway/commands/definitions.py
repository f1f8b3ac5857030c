"""What does `shadowlane definitions` say?  One streamed answer, under every tool's definition."""

import asyncio
import sys
import time
from collections.abc import Sequence

import aiohttp
from rich.console import Console
from rich.table import Table

from analysis.definitions import Row, definitions

_PATH = "/v1/chat/completions"
_FAILED = 1
_DASH = "–"


async def measure(url: str, model: str | None, prompt: str, max_tokens: int, timeout_s: float) -> list[Row]:
    """Ask an engine or a gateway once, streamed; ValueError or aiohttp.ClientError where it does not."""
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({} if model is None else {"model": model}),
    }
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        sent_ns = time.monotonic_ns()
        async with session.post(url.rstrip("/").removesuffix("/v1") + _PATH, json=body) as answer:
            reads = [(time.monotonic_ns(), data) async for data in answer.content.iter_any()]
            if answer.status != 200:
                raise ValueError(f"{url} answers with status {answer.status}")
            if "text/event-stream" not in answer.headers.get("content-type", ""):
                raise ValueError(f"{url} does not stream its answer")
    return definitions(reads, sent_ns, time.monotonic_ns())


def table(rows: Sequence[Row]) -> Table:
    """The rows for a terminal, in ms."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("tool")
    for name in ("TTFT", "ITL", "TPOT", "E2E"):
        shown.add_column(name, justify="right")
    shown.add_column("")
    for row in rows:
        figures = (row.ttft_ms, row.itl_ms, row.tpot_ms, row.e2e_ms)
        shown.add_row(row.tool, *(_DASH if one is None else f"{one:.2f}" for one in figures), row.note)
    return shown


def command(url: str, model: str | None, prompt: str, max_tokens: int, timeout_s: float) -> int:
    """Ask, print, and give the exit status."""
    try:
        rows = asyncio.run(measure(url, model, prompt, max_tokens, timeout_s))
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:  # an address that is none is the latter
        sys.stderr.write(f"shadowlane definitions: {error or type(error).__name__}\n")
        return _FAILED
    Console().print(table(rows))
    return 0
