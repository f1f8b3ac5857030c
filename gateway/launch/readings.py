"""What arms' GPUs are doing, told to the analysis at a fixed interval, beside the pairs."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

import aiohttp
import msgpack

from gateway.launch import dcgm
from gateway.launch.places import Places
from gateway.launch.reading import NoHardware, Reading
from gateway.launch.spec import WatchedSpec
from wire.tasks import Tasks

KIND = "gpu"
_PAGE_BYTES = 16 << 20
_NVML, _DCGM = "nvml", "dcgm"


class Readings:
    """Reads the GPUs of `watched` arms, those of launched engines included, and offers what they show.

    `offer(frame)` takes a frame for the analysis, or not: readings that find no room are counted in `lost`.
    """

    def __init__(
        self, places: Places, http: aiohttp.ClientSession, offer: Callable[[bytes], bool], log: Any
    ) -> None:
        self._places = places
        self._http = http
        self._offer = offer
        self._log = log
        self._xid: dict[tuple[str, str], tuple[int, ...]] = {}
        self._silent: set[str] = set()
        self.watched: Sequence[WatchedSpec] = ()
        self.every_s = 1.0
        self.most_wait_s = 5.0  # for an exporter's page
        self.lost = 0

    async def follow(self) -> None:
        """Read, for ever, at the beginning of each interval; a source that has not answered yet is not asked
        again meanwhile, and holds no other up."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        tasks = Tasks(lambda _name, _error: None)  # it is raised here
        asked: dict[str | None, asyncio.Task[None]] = {}
        try:
            while True:
                for source, watched in self._by_source().items():
                    if (before := asked.get(source)) is not None:
                        if not before.done():
                            continue
                        before.result()
                    asked[source] = tasks.spawn(self._ask(source, watched), name="readings")
                # what was missed is not made up for: an interval that a driver took is one reading
                due_s = max(due_s + self.every_s, loop.time())
                await asyncio.sleep(due_s - loop.time())
        finally:
            await tasks.cancel()

    def _by_source(self) -> dict[str | None, list[WatchedSpec]]:
        """The arms of which the same exporter tells (None: NVML), which is asked once for all of them."""
        found: dict[str | None, list[WatchedSpec]] = {}
        for watched in self.watched:
            found.setdefault(watched.dcgm, []).append(watched)
        return found

    async def _ask(self, exporter: str | None, watched: Sequence[WatchedSpec]) -> None:
        there = [(one, gpus) for one in watched if (gpus := self._gpus(one))]
        page = None
        if exporter is not None and there:
            try:
                page = await self._page(exporter)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                for one, _ in there:
                    self._say_once(one, error)
                return
        for one, gpus in there:
            await self._read(one, gpus, page)

    def _gpus(self, watched: WatchedSpec) -> tuple[str, ...]:
        held = self._places.of((watched.experiment, watched.arm))
        return tuple(gpu.uuid for gpu in held) or watched.gpus

    async def _read(self, watched: WatchedSpec, gpus: Sequence[str], page: str | None) -> None:
        try:
            if page is None or watched.dcgm is None:
                source, found = _NVML, await self._places.read(gpus)
            else:
                source, found = _DCGM, self._fresh(watched.dcgm, dcgm.readings(page, gpus))
        except NoHardware:
            return  # it was said once
        except (OSError, ValueError, KeyError) as error:
            self._say_once(watched, error)
            return
        self._silent.discard(_name(watched))
        if found:
            body = {
                "experiment": watched.experiment,
                "arm": watched.arm,
                "at_ns": monotonic_ns(),
                "source": source,
                "gpus": [one.to_map() for one in found],
            }
            if not self._offer(msgpack.packb([KIND, body], use_bin_type=True)):
                self.lost += 1

    async def _page(self, url: str) -> str:
        async with asyncio.timeout(self.most_wait_s), self._http.get(url + "/metrics") as answer:
            if answer.status != 200:
                raise ValueError(f"{url}/metrics answered {answer.status}")
            page = await answer.content.read(_PAGE_BYTES)
            while more := await answer.content.read(_PAGE_BYTES - len(page)):
                page += more
        return page.decode(errors="replace")

    def _fresh(self, url: str, found: list[Reading]) -> list[Reading]:
        """Without errors that stood there before: an exporter shows the last one for good."""
        fresh = []
        for one in found:
            before = self._xid.get((url, one.uuid), one.xid)
            self._xid[url, one.uuid] = one.xid
            fresh.append(one.without_xid() if before == one.xid else one)
        return fresh

    def _say_once(self, watched: WatchedSpec, error: Exception) -> None:
        if (name := _name(watched)) not in self._silent:
            self._silent.add(name)
            why = str(error) or type(error).__name__
            self._log.warning("no readings of an arm's GPUs", arm=name, dcgm=watched.dcgm, why=why)


def _name(watched: WatchedSpec) -> str:
    return f"{watched.experiment}/{watched.arm}"
