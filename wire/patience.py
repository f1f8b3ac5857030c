"""How long something is waited for, where our own process may be what did not move."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

# A deadline noticed this late was not missed by the other side alone: this process was stopped, or busy.
_LATE_S: Final = 0.25
# What came meanwhile waits in the kernel and is read in the loop's next turns.
_GRACE_S: Final = 1.0


@asynccontextmanager
async def within(timeout_s: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`, but a deadline that the loop itself came late to is put off once, by a second.

    A loop runs its timers before it reads: after a pause of the process (SIGSTOP, a machine that is moved, a
    starved core) every deadline is past though the answers lie there, and one pause would fail them all.
    Raises TimeoutError.
    """
    loop = asyncio.get_running_loop()
    due_s = loop.time() + timeout_s
    async with asyncio.timeout(None) as limit:

        def look() -> None:
            now_s = loop.time()
            limit.reschedule(now_s + _GRACE_S if now_s - due_s > _LATE_S else now_s)

        timer = loop.call_at(due_s, look)
        try:
            yield
        finally:
            timer.cancel()
