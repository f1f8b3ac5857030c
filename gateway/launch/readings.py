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

KIND = "gpu"
_PAGE_BYTES = 16 << 20
_MOST_WAIT_S = 5.0
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
        self.lost = 0

    async def follow(self) -> None:
        """Read, for ever, at the beginning of each interval."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            for watched in self.watched:
                await self._read(watched)
            # what was missed is not made up for: an interval that a driver took is one reading
            due_s = max(due_s + self.every_s, loop.time())
            await asyncio.sleep(due_s - loop.time())

    async def _read(self, watched: WatchedSpec) -> None:
        held = self._places.of((watched.experiment, watched.arm))
        gpus = tuple(gpu.uuid for gpu in held) or watched.gpus
        if not gpus:
            return
        source = _NVML if watched.dcgm is None else _DCGM
        try:
            if watched.dcgm is None:
                found = await self._places.read(gpus)
            else:
                found = self._fresh(watched.dcgm, await self._page(watched.dcgm, gpus))
        except NoHardware:
            return  # it was said once
        except (aiohttp.ClientError, OSError, ValueError, KeyError) as error:
            self._say_once(watched, str(error) or type(error).__name__)
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

    async def _page(self, url: str, gpus: Sequence[str]) -> list[Reading]:
        async with asyncio.timeout(_MOST_WAIT_S), self._http.get(url + "/metrics") as answer:
            if answer.status != 200:
                raise ValueError(f"{url}/metrics answered {answer.status}")
            page = await answer.content.read(_PAGE_BYTES)
            while more := await answer.content.read(_PAGE_BYTES - len(page)):
                page += more
        return dcgm.readings(page.decode(errors="replace"), gpus)

    def _fresh(self, url: str, found: list[Reading]) -> list[Reading]:
        """Without errors that stood there before: an exporter shows the last one for good."""
        fresh = []
        for one in found:
            before = self._xid.get((url, one.uuid), one.xid)
            self._xid[url, one.uuid] = one.xid
            fresh.append(one.without_xid() if before == one.xid else one)
        return fresh

    def _say_once(self, watched: WatchedSpec, why: str) -> None:
        if (name := _name(watched)) not in self._silent:
            self._silent.add(name)
            self._log.warning("no readings of an arm's GPUs", arm=name, dcgm=watched.dcgm, why=why)


def _name(watched: WatchedSpec) -> str:
    return f"{watched.experiment}/{watched.arm}"
