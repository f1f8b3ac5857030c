"""What comes before anybody has ever listened is kept for a reader to whom it does not matter how late it is,
within bounds of bytes and of time; for any other it is dropped, and counted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgpack
import uvloop

from gateway.lane_link import LaneLink
from gateway.spec import SamplingSpec
from tests.gateway.test_lane_link import connected, offer
from tests.support import until


def link_to(path: Path, keeps_s: float, lane_bytes: int = 1 << 20) -> LaneLink:
    loop, sampling = asyncio.get_running_loop(), SamplingSpec("e", None, 1.0, b"salt")
    bounds = {"lane_bytes": lane_bytes, "copy_bytes": lane_bytes}
    return LaneLink(loop, str(path), [sampling], **bounds, sees_all=True, keeps_s=keeps_s)


class Listener:
    """Reads a lane; `ids` are of the copies that came."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.writer: asyncio.StreamWriter | None = None

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        unpacker = msgpack.Unpacker()
        while data := await reader.read(1 << 16):
            unpacker.feed(data)
            self.ids += [fields["id"] for kind, fields in unpacker if kind == "copy"]
        writer.close()


@asynccontextmanager
async def listening(path: Path, listener: Listener) -> AsyncIterator[None]:
    server = await asyncio.start_unix_server(listener, str(path))
    try:
        yield
    finally:
        if listener.writer is not None:
            listener.writer.transport.abort()
        server.close()


def test_what_came_before_the_first_listener_goes_to_it_in_order_and_before_what_comes_then(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        path, listener = tmp_path / "lane.sock", Listener()
        link = link_to(path, keeps_s=600.0)
        for number in range(3):
            offer(link, number)
            await asyncio.sleep(0)
        async with listening(path, listener):
            await connected(link, path)
            offer(link, 3)
            await until(lambda: len(listener.ids) == 4, 20)
            assert listener.ids == ["r0", "r1", "r2", "r3"] and not link.dropped
            lane = link.experiments[0].lane
            assert (lane.sampled, lane.under_way) == (4, 4)

    uvloop.run(go())


def test_what_does_not_fit_is_dropped_and_counted(tmp_path: Path) -> None:
    async def go() -> None:
        link = link_to(tmp_path / "lane.sock", keeps_s=600.0, lane_bytes=1000)
        for number in range(20):
            offer(link, number)
        lane = link.experiments[0].lane
        assert link.queued_bytes <= 1000 and set(lane.dropped) == {"lane_full"}
        assert lane.sampled == 20 == lane.under_way + lane.dropped["lane_full"] and lane.under_way > 0

    uvloop.run(go())


def test_it_is_given_up_and_counted_once_the_time_is_over_and_nothing_is_kept_from_then_on(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        link = link_to(tmp_path / "lane.sock", keeps_s=600.0)
        offer(link, 1)
        offer(link, 2)
        assert not link.dropped
        link._keeps_until_s = asyncio.get_running_loop().time()
        connecting = asyncio.get_running_loop().create_task(link.keep_connected())
        await until(lambda: dict(link.dropped) == {("e", "lane_down"): 2}, 20)
        offer(link, 3)
        assert dict(link.dropped) == {("e", "lane_down"): 3} and link.queued_bytes == 0
        connecting.cancel()

    uvloop.run(go())


def test_nothing_is_kept_for_one_that_was_there_and_went_nor_where_copies_must_not_be_late(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        path, listener = tmp_path / "lane.sock", Listener()
        strict = link_to(path, keeps_s=0.0)
        offer(strict, 1)
        assert dict(strict.dropped) == {("e", "lane_down"): 1}
        async with listening(path, listener):
            link = link_to(path, keeps_s=600.0)
            await connected(link, path)
            await until(lambda: listener.writer is not None, 20)
            link._transport.abort()  # type: ignore[union-attr]
            await until(lambda: link._transport is None, 20)
        offer(link, 1)
        assert dict(link.dropped) == {("e", "lane_down"): 1}

    uvloop.run(go())


def test_a_recording_that_is_ended_before_anybody_listened_keeps_nothing(tmp_path: Path) -> None:
    async def go() -> None:
        link = link_to(tmp_path / "lane.sock", keeps_s=600.0)
        offer(link, 1)
        assert link.queued_bytes > 0
        link.renew([])
        assert link.queued_bytes == 0 and not link.dropped

    uvloop.run(go())
