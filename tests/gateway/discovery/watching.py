"""A watched source, and what it has told so far."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from gateway.discovery.process import follow
from gateway.discovery.source import Source
from gateway.discovery.spec import Found
from tests.support import until


@dataclass
class Watched:
    """What a source has told."""

    again: asyncio.Event = field(default_factory=asyncio.Event)
    told: list[Found] = field(default_factory=list)

    async def urls(self, *expected: str, timeout_s: float = 15) -> None:
        """Wait until the last word is these engines."""
        wanted = Found("m", tuple(sorted(expected)))
        await until(lambda: bool(self.told) and self.told[-1] == wanted, timeout_s)

    async def error(self, words: str, timeout_s: float = 15) -> None:
        """Wait until the last word is a complaint with these words and no engines."""

        def complained() -> bool:
            last = self.told[-1] if self.told else None
            return last is not None and last.urls is None and words in (last.error or "")

        await until(complained, timeout_s)


@asynccontextmanager
async def watched(source: Source) -> AsyncIterator[Watched]:
    """Follow a source until the end."""
    one = Watched()
    log = structlog.wrap_logger(structlog.ReturnLogger())
    task = asyncio.get_running_loop().create_task(follow("m", source, one.again, one.told.append, log))
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
