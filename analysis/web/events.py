"""How the live page is kept up to date: server-sent events, once a second, the newest state only."""

import asyncio

from aiohttp import web

from analysis.report import to_json
from analysis.web.guard import failure
from analysis.web.source import SOURCE, Source

_MAX_READERS = 64


class Feed:
    """The readers of one server. Each gets the state as it is when it can take it; nobody is buffered for.

    A reader that does not take an update within `patience_s` is disconnected. An unchanged ranking is not
    sent again.
    """

    def __init__(self, source: Source, *, every_s: float = 1.0, patience_s: float = 5.0) -> None:
        self._source = source
        self._every_s = every_s
        self._patience_s = patience_s
        self._closing = asyncio.Event()
        self._made: dict[str, tuple[int, bytes]] = {}
        self.readers = 0

    def close(self) -> None:
        """End every stream."""
        self._closing.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """GET /api/events."""
        if self.readers >= _MAX_READERS:
            return failure(503, f"{_MAX_READERS} readers follow already; close one", "too_many_readers")
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        self.readers += 1
        try:
            await response.prepare(request)
            await self._follow(response)
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self.readers -= 1
        return response

    async def _follow(self, response: web.StreamResponse) -> None:
        sent: dict[str, int] = {}
        await response.write(b"retry: 1000\n\n")
        while not self._closing.is_set():
            parts = [_event("status", to_json(self._source.status()))]
            for name in self._source.names():
                version, event = await self._ranking(name)
                if event and sent.get(name) != version:
                    sent[name] = version
                    parts.append(event)
            await asyncio.wait_for(response.write(b"".join(parts)), self._patience_s)
            try:
                await asyncio.wait_for(self._closing.wait(), self._every_s)
            except TimeoutError:
                continue

    async def _ranking(self, name: str) -> tuple[int, bytes]:
        """The event, made once a version for all readers."""
        version = self._source.rank_version(name)
        made = self._made.get(name)
        if made is None or made[0] != version:
            try:
                ranking = await self._source.ranking(name)
                made = (version, b"" if ranking is None else _event("ranking", to_json(ranking)))
            except Exception:  # the source has counted it; the other experiments' readers go on
                made = (version, b"")
            self._made[name] = made
        return made


def _event(name: str, payload: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), payload)


FEED: web.AppKey[Feed] = web.AppKey("feed", Feed)


async def events(request: web.Request) -> web.StreamResponse:
    """GET /api/events."""
    return await request.app[FEED].serve(request)


async def end_streams(app: web.Application) -> None:
    """Shutdown hook."""
    app[FEED].close()


def install(app: web.Application) -> None:
    """Give `app` its feed."""
    app[FEED] = Feed(app[SOURCE])
    app.on_shutdown.append(end_streams)
    app.router.add_get("/api/events", events)
