"""The one place that learns for all workers: it asks engines, takes copies' ids, and tells what was learned.

What it cannot take at once waits in short queues, one for each engine; what finds no room is dropped and
counted.  A worker that comes, or comes again, is told what was learned last, up to a bound.
"""

import asyncio
import os
from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from gateway.bridge.classroom import Classroom
from gateway.bridge.frames import (
    SOCKET,
    Asked,
    Copied,
    Fleets,
    Ids,
    Learned,
    MalformedFrame,
    Template,
    pack,
    read,
    unpacker,
    words,
)
from routing.bridge.anchors import message_ends
from routing.bridge.features import Feature
from routing.bridge.fit import CHAT, Fit, fit
from routing.bridge.probe import Probed
from routing.events.chain import block_chain
from wire.errors import told as told_error
from wire.tasks import Tasks

PROBE_S = 60.0
_MOST_COPIES = 4096
_KEPT_BYTES = 32 << 20
_WAITING_BYTES = 8 << 20
_numbers = msgspec.json.Decoder(list[int])
_ALL = (Feature.NONE, Feature.THINKING, Feature.TOOLS, Feature.THINKING | Feature.TOOLS)


class School:
    """See the module.  `counts`: what was learned, and by reason what was not."""

    def __init__(self, run_dir: str | os.PathLike[str], log: Any, probe_s: float = PROBE_S) -> None:
        self._path = Path(run_dir) / SOCKET
        self._log = log
        self._probe_s = probe_s
        self._tasks = Tasks(lambda name, error: log.error("task failed", task=name, error=told_error(error)))
        self.counts: Counter[str] = Counter()
        self._open: set[_Line] = set()
        self._lines: set[_Line] = set()  # of these, the workers'
        self._fleets: dict[str, Classroom] = {}
        self._copies: OrderedDict[str, Copied] = OrderedDict()
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0

    async def serve(self, stop: asyncio.Event) -> None:
        """Learn until `stop` is set.  OSError when its socket cannot be listened on."""
        self._path.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(lambda: _Line(self), str(self._path))
        os.chmod(self._path, 0o600)
        try:
            await stop.wait()
        finally:
            server.close()
            for line in list(self._open):
                line.drop()
            await self._tasks.cancel()
            for fleet in self._fleets.values():
                await fleet.close()

    # What comes

    def came(self, line: "_Line") -> None:
        """A worker is there: it is told what is known."""
        self._lines.add(line)
        self._tell_templates(line, self._fleets)
        for frame in self._kept:
            line.write(frame)

    def _tell_templates(self, line: "_Line", names: Iterable[str]) -> None:
        """Which templates these fleets have: a worker forgets it when it no longer learns of a fleet."""
        for name in names:
            found = self._fleets[name].probed
            if found is not None:
                line.write(pack(_template(name, found)))

    def open(self, line: "_Line") -> None:
        """Somebody is there: a worker, or the shadow process."""
        self._open.add(line)

    def left(self, line: "_Line") -> None:
        """Nobody is there any more."""
        self._open.discard(line)
        self._lines.discard(line)

    def heard(self, line: "_Line", frame: Any) -> None:
        """One object of a line.  Raises MalformedFrame."""
        told = read(frame)
        if isinstance(told, Fleets):
            self._renew(told)
            if line in self._lines:
                self._tell_templates(line, [place.fleet for place in told.fleets])
            else:
                self.came(line)
        elif isinstance(told, Asked):
            fleet = self._fleets.get(told.fleet)
            if fleet is None or not fleet.ask(told):
                self.counts["unknown" if fleet is None else "busy"] += 1
        elif isinstance(told, Copied):
            self._copies[told.id] = told
            if len(self._copies) > _MOST_COPIES:
                self._copies.popitem(last=False)
                self.counts["copy_lost"] += 1
        elif isinstance(told, Ids):
            copied = self._copies.pop(told.id, None)
            if copied is not None:
                self._learn_copy(copied, told)
        else:
            raise MalformedFrame("nobody teaches here")

    def _renew(self, told: Fleets) -> None:
        for place in told.fleets:
            fleet = self._fleets.get(place.fleet)
            if fleet is None:
                fleet = self._fleets[place.fleet] = Classroom(self, place)
                self._tasks.spawn(fleet.probe_on(self._probe_s), name=f"probe {place.fleet}")
            fleet.renew(place)

    def failed(self, what: str, error: Exception) -> None:
        """Something went wrong that is tried again."""
        self.counts["failed"] += 1
        self._log.error("learning failed; it is tried again", what=what, error=told_error(error))

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something in the background."""
        self._tasks.spawn(work, name=name)

    # What was learned

    def learn(self, fleet: Classroom, asked: Asked | Copied, fitted: Fit, ids: Sequence[int]) -> None:
        """Tell all workers a prompt's blocks, if its template may be learned from."""
        if fleet.probed is None:
            self.counts["unprobed"] += 1
            return
        if not fleet.probed.may_learn(fitted.features, fitted.path):
            self.counts["template"] += 1
            return
        asked_model = fitted.body.get("model")
        lora = asked_model if asked_model in fleet.place.loras else ""
        try:
            blocks = {
                size: block_chain(ids, size, lora=lora, salt=fitted.salt)
                for size in asked.sizes[:4]
                if size > 0
            }
        except (OverflowError, TypeError):
            self.counts["no_ids"] += 1
            return
        marker, ends = fleet.probed.marker, words(asked.ends, "I")
        told: list[tuple[int, int]] = []
        if marker is not None and fitted.path == CHAT:
            told = message_ends(ends, fitted, ids, marker)
        frame = Learned(
            asked.fleet,
            asked.chain,
            asked.ends,
            len(ids),
            fitted.front_bytes,
            {size: _packed(chain) for size, chain in blocks.items()},
            tuple(told),
        )
        self.counts["learned"] += 1
        self._tell(pack(frame), keep=True)

    def _learn_copy(self, copied: Copied, told: Ids) -> None:
        fleet, fitted = self._fleets.get(copied.fleet), fit(told.path, told.body)
        if fleet is None or isinstance(fitted, str):
            self.counts["unknown" if fleet is None else str(fitted)] += 1
            return
        try:
            ids = _numbers.decode(told.text) if told.text else words(told.ids, "I")
        except msgspec.DecodeError:
            self.counts["no_ids"] += 1
            return
        self.learn(fleet, copied, fitted, ids)

    def template(self, name: str, found: Probed, *, is_new: bool) -> None:
        """A fleet's template was probed, and is another one than before."""
        if not is_new:
            self._kept.clear()
            self._kept_bytes = 0
        told = _template(name, found)
        self._log.info(
            "chat template probed", fleet=name, tail_tokens=told.tail_tokens, learned=told.features
        )
        self._tell(pack(told), keep=False)

    def _tell(self, frame: bytes, *, keep: bool) -> None:
        for line in self._lines:
            line.write(frame)
        if keep:
            self._kept.append(frame)
            self._kept_bytes += len(frame)
            while self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= len(self._kept.popleft())


class _Line(asyncio.Protocol):
    """A worker's or the shadow process's connection."""

    _transport: asyncio.Transport

    def __init__(self, school: School) -> None:
        self._school = school
        self._unpacker = unpacker()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._school.open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._school.left(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._unpacker.feed(data)
            for frame in self._unpacker:
                self._school.heard(self, frame)
        except (ValueError, TypeError):  # msgpack's and our own: framing is lost
            self._school.counts["malformed"] += 1
            self.drop()

    def write(self, frame: bytes) -> None:
        """Write, unless too much waits already: what is lost is learned again one day."""
        if self._transport.get_write_buffer_size() < _KEPT_BYTES + _WAITING_BYTES:
            self._transport.write(frame)
        else:
            self._school.counts["slow_worker"] += 1

    def drop(self) -> None:
        self._transport.abort()


def _packed(chain: list[int]) -> bytes:
    return array("Q", chain).tobytes()


def _template(name: str, found: Probed) -> Template:
    features = tuple(int(one) for one in _ALL if found.may_learn(one))
    return Template(name, found.print, found.tail_tokens, features, found.are_loops_apart)
