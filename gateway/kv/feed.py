"""Who is listened to?  Each engine whose events are wanted, wherever it says that it publishes.

An engine is asked where it publishes when it is first heard of, when a connection to it is lost, and every
minute.  Nothing here fails a request: what cannot be had is not known, and is asked for again.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import uniform
from time import monotonic_ns
from typing import Any, Final

import zmq

from gateway.fleets.probe import Place, ask
from gateway.kv.bound import Bound
from gateway.kv.drain import drain
from gateway.kv.heard import Heard
from gateway.kv.memory import Tables, open_board
from gateway.kv.sources import PATHS, PATHS_OF, Source, configured, host_of, told
from gateway.kv.spec import MUTE, KvEngine, KvSpec, binds
from routing.events.book import Book, FullError
from wire.errors import told as error_told
from wire.tasks import Tasks

_ASK_TIMEOUT_S: Final = 5.0
_FIRST_DELAY_S: Final = 1.0
_MOST_DELAY_S: Final = 30.0
_CALM_S: Final = 60.0

Tally = Counter[tuple[str, ...]]


class Feed:
    """All publishers of one deployment.  `log` hears of what is amiss, once for each change."""

    def __init__(self, run_dir: Path, tasks: Tasks, log: Any) -> None:
        board = open_board(run_dir)
        if board is None:
            raise FileNotFoundError(f"there is no board in {run_dir}")
        self.book = Book(board, Tables(run_dir).new, lambda: secrets.randbits(64))
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.tasks = tasks
        self.log = log
        self.past: Tally = Counter()  # of publishers that are gone
        self._followed: dict[KvEngine, Followed] = {}
        self._bound: dict[str, Bound] = {}
        self._wanted: tuple[KvEngine, ...] = ()

    def renew(self, spec: KvSpec) -> None:
        """Listen to these engines' publishers; who stays goes on."""
        self._wanted = spec.engines
        wanted = set(spec.engines)
        for engine in self._followed.keys() - wanted:
            self._followed.pop(engine).close()
        for engine in spec.engines:
            if engine not in self._followed:
                self._followed[engine] = Followed(self, engine)
        at = binds(spec.engines)
        for endpoint in self._bound.keys() - at.keys():
            self._bound.pop(endpoint).close()
        for endpoint, engines in at.items():
            followed = {engine: self._followed[engine] for engine in engines}
            if endpoint in self._bound:
                self._bound[endpoint].renew(followed)
            else:
                self._bind(endpoint, followed)

    def place_of(self, engine: KvEngine) -> int:
        """Which of its fleet's engines this is."""
        return [one for one in self._wanted if one.fleet == engine.fleet].index(engine)

    def look(self) -> None:
        """What is looked after about once a second."""
        self.book.beat(monotonic_ns())
        for followed in self._followed.values():
            for heard in followed.heard.values():
                heard.look()

    def status(self) -> dict[str, Any]:
        """For the admin page."""
        return {
            "table_bytes": self.book.size_bytes,
            "no_room": self.book.no_room,
            "engines": [one.status() for one in self._followed.values()],
            "bound": {endpoint: dict(one.ignored) for endpoint, one in self._bound.items()},
        }

    def counts(self) -> Tally:
        """All that happened, by metric, engine, rank and what it was."""
        found = Counter(self.past)
        for followed in self._followed.values():
            for heard in followed.heard.values():
                found.update(tally(followed.engine.url, heard))
        return found

    @property
    def heard(self) -> list[tuple[KvEngine, Heard]]:
        """Every publisher, with its engine."""
        return [(one.engine, heard) for one in self._followed.values() for heard in one.heard.values()]

    def close(self) -> None:
        """Listen to nobody any more."""
        for bound in self._bound.values():
            bound.close()
        for followed in self._followed.values():
            followed.close()
        self._followed.clear()
        self.context.term()

    def _bind(self, endpoint: str, followed: Mapping[KvEngine, "Followed"]) -> None:
        try:
            self._bound[endpoint] = Bound(self.context, endpoint, self.failed)
        except zmq.ZMQError as error:
            self.log.error("engines cannot connect to publish", endpoint=endpoint, why=str(error))
        else:
            self._bound[endpoint].renew(followed)

    def failed(self, error: Exception) -> None:
        """Something was raised over a message: it is dropped, and the next one is heard."""
        self.past["kv_troubles", "other", "0", "failed"] += 1
        self.log.error("a message of an engine could not be taken in", error=error_told(error))


class Followed:
    """One engine, and its publishers by rank."""

    def __init__(self, feed: Feed, engine: KvEngine) -> None:
        self._feed = feed
        self.engine = engine
        self.heard: dict[int, Heard] = {}
        self.error: str | None = "not asked yet"
        self._again = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        if engine.kind in MUTE:
            self.error = f"engines of the kind {engine.kind} publish no events"
        elif engine.events.bind is not None:
            self.error = "it has not published yet"
        elif engine.events.drain:
            self._task = feed.tasks.spawn(drain(feed, self), name=f"events of {engine.url}")
        else:
            self._task = feed.tasks.spawn(self._follow(), name=f"events of {engine.url}")

    def open(self, source: Source, *, listen: bool) -> Heard | None:
        """A publisher's row; None when there is no room."""
        feed = self._feed
        try:
            heard = Heard(
                feed.book, self.engine.id, source, self.engine.events.most_blocks, feed.context, feed.failed
            )
        except FullError as error:
            self.error = str(error)
            return None
        self.heard[source.rank] = heard
        self.error = None
        if listen:
            heard.on_lost = self._again.set
            try:
                heard.listen()
            except zmq.ZMQError as error:
                self.error = f"{source.publish}: {error}"
                self.drop(source.rank)
                return None
        return heard

    def drop(self, rank: int) -> None:
        """Listen to it no more."""
        heard = self.heard.pop(rank)
        self._feed.past.update(tally(self.engine.url, heard))
        heard.close()

    def close(self) -> None:
        """Listen to none of its publishers any more."""
        if self._task is not None:
            self._task.cancel()
        for rank in list(self.heard):
            self.drop(rank)

    def status(self) -> dict[str, Any]:
        """For the admin page."""
        return {
            "engine": self.engine.url,
            "fleet": self.engine.fleet,
            "error": self.error,
            "publishers": [heard.status() for heard in self.heard.values()],
        }

    async def _follow(self) -> None:
        delay_s = _FIRST_DELAY_S
        while True:
            self._again.clear()
            sources, error = await self._sources()
            if sources is not None:
                self._listen(sources)
            if error != self.error and not self.heard:
                self.error = error
                self._feed.log.info("no KV events", engine=self.engine.url, why=error)
            is_calm = sources is not None and all(heard.is_linked for heard in self.heard.values())
            delay_s = _FIRST_DELAY_S if is_calm else min(_MOST_DELAY_S, 2 * delay_s)
            await _until(self._again, _CALM_S if is_calm else uniform(delay_s / 2, delay_s))
            if self._again.is_set():
                await asyncio.sleep(uniform(0.1, 0.5))  # who lost one connection soon loses the next

    async def _sources(self) -> tuple[list[Source] | None, str | None]:
        """Where it publishes; None while it does not answer.  And why there is nothing."""
        engine = self.engine
        host = host_of(engine.url)
        if found := configured(engine.events, host):
            return found, None
        paths = PATHS_OF.get(engine.kind, PATHS)
        answers = await ask(Place(engine.url, engine.api_key, engine.tls), _ASK_TIMEOUT_S, paths)
        if answers.error is not None:
            return None, answers.error
        found = told(answers.answers, host)
        return found, None if found else "it does not say that it publishes any"

    def _listen(self, sources: list[Source]) -> None:
        wanted = {source.rank: source for source in sources}
        for rank, heard in list(self.heard.items()):
            if wanted.get(rank) != heard.source:
                self.drop(rank)
        for rank, source in wanted.items():
            if rank not in self.heard:
                self.open(source, listen=True)


def tally(url: str, heard: Heard) -> Tally:
    """What happened at a publisher, by metric, engine, rank and what it was."""
    publisher, rank = heard.publisher, str(heard.source.rank)
    found: Tally = Counter()
    for what, n in publisher.counts.items():
        metric = "kv_events" if what in ("batches", "stored", "removed", "cleared") else "kv_troubles"
        found[metric, url, rank, what] += n
    for reason, n in publisher.ignored.items():
        found["kv_ignored", url, rank, reason] += n
    return found


async def _until(event: asyncio.Event, most_s: float) -> None:
    try:
        async with asyncio.timeout(most_s):
            await event.wait()
    except TimeoutError:
        return
