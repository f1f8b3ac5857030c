"""One small request and its whole answer, awaited: for probes and scrapes, not for the data path."""

import asyncio
from dataclasses import dataclass

from wire.exchange import Ending
from wire.http1 import Headers
from wire.patience import within
from wire.response import ResponseHead
from wire.upstream import Pool


@dataclass(frozen=True, slots=True)
class Fetched:
    """A small answer read whole.  `status` is 0 when none came; then `ending` says why.

    `why` says it in words where no connection could be made.
    """

    status: int
    headers: Headers
    body: bytes
    ending: Ending
    why: str | None = None


class _Collecting:
    """An `Answer` that keeps everything, up to a bound."""

    def __init__(self, pool: Pool, done: "asyncio.Future[Fetched]", limit_bytes: int) -> None:
        self._pool = pool
        self._done = done
        self._limit_bytes = limit_bytes
        self._head: ResponseHead | None = None
        self._body = bytearray()

    def head_came(self, head: ResponseHead, at_ns: int, *, more: bool) -> None:
        self._head = head

    def body_came(self, body: bytes, at_ns: int, framed: bytes | None) -> None:
        if len(self._body) < self._limit_bytes:
            self._body += body[: self._limit_bytes - len(self._body)]

    def ended(self, ending: Ending, at_ns: int) -> None:
        if self._done.done():
            return
        head = self._head
        status, headers = (head.status, head.headers) if head is not None else (0, [])
        why = self._pool.trouble if ending in (Ending.REFUSED, Ending.FULL) else None
        self._done.set_result(Fetched(status, headers, bytes(self._body), ending, why))


async def fetch(pool: Pool, request: bytes, timeout_s: float, limit_bytes: int = 4 << 20) -> Fetched:
    """Send a small request and read its answer.  Never raises for what an engine does: see `Fetched`."""
    done: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
    exchange = pool.send(request, _Collecting(pool, done, limit_bytes))
    try:
        async with within(timeout_s):
            return await asyncio.shield(done)
    except TimeoutError:
        exchange.cancel(Ending.TIMEOUT)
        return await done
    except asyncio.CancelledError:
        exchange.cancel()
        raise
