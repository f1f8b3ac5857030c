"""A worker's end of the lane: what is offered within a moment goes out together, or is counted."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import uvloop

from gateway.copied import asked
from gateway.lane_link import LaneLink
from gateway.spec import SamplingSpec
from routing.prompt import named_by, read
from routing.types import Prompt

HEADERS = [(b"Content-Type", b"application/json")]


def link_to(path: Path, loop: asyncio.AbstractEventLoop) -> LaneLink:
    sampling = SamplingSpec("e", None, 1.0, b"salt")
    return LaneLink(loop, str(path), [sampling], lane_bytes=1 << 20, copy_bytes=1 << 20, sees_all=True)


def offer(link: LaneLink, number: int) -> None:
    prompt = Prompt("m", (number,), (4,), number, 0, False, None)
    body = b'{"n":%d}' % number
    link.copied(None, f"r{number}", asked("/v1/completions", "/v1/completions", HEADERS), body, prompt, 1, 2)


async def connected(link: LaneLink, path: Path) -> None:
    await asyncio.get_running_loop().create_unix_connection(lambda: link, str(path))


@asynccontextmanager
async def listening(path: Path, reads: list[list[Any]], most: int) -> AsyncIterator[asyncio.Event]:
    """A shadow process that keeps the frames of each read; the event is set once there are so many."""
    heard = asyncio.Event()

    async def shadow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unpacker = msgpack.Unpacker()
        while data := await reader.read(1 << 16):
            unpacker.feed(data)
            reads.append(list(unpacker))
            if sum(map(len, reads)) == most:
                heard.set()
        writer.close()

    async with await asyncio.start_unix_server(shadow, str(path)):
        yield heard


def test_what_is_offered_in_one_turn_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async def go() -> None:
        path, reads = tmp_path / "lane.sock", list[list[Any]]()
        async with listening(path, reads, 60) as heard:
            link = link_to(path, asyncio.get_running_loop())
            await connected(link, path)
            for turn in range(3):
                for number in range(20):
                    offer(link, turn * 20 + number)
                await asyncio.sleep(0)
            async with asyncio.timeout(20):
                await heard.wait()
            frames = [frame for read in reads for frame in read]
            assert [frame[1]["id"] for frame in frames] == [f"r{n}" for n in range(60)]
            assert not link.dropped
            link._transport.close()  # type: ignore[union-attr]
            await asyncio.sleep(0.05)

    uvloop.run(go())


def test_copies_of_a_moment_are_written_together(tmp_path: Path) -> None:
    async def go() -> None:
        path, reads = tmp_path / "lane.sock", list[list[Any]]()
        async with listening(path, reads, 50) as heard:
            link = link_to(path, asyncio.get_running_loop())
            await connected(link, path)
            for number in range(50):
                offer(link, number)
                await asyncio.sleep(0)  # a turn of the loop for each: the shadow process may read after each
            async with asyncio.timeout(20):
                await heard.wait()
            assert len(reads) < 50 / 2
            link._transport.close()  # type: ignore[union-attr]
            await asyncio.sleep(0.05)

    uvloop.run(go())


def test_copies_of_the_turn_in_which_the_shadow_process_goes_are_counted(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "lane.sock"

        async def shadow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async with await asyncio.start_unix_server(shadow, str(path)):
            link = link_to(path, asyncio.get_running_loop())
            await connected(link, path)
            offer(link, 1)
            offer(link, 2)
            link.connection_lost(None)
            await asyncio.sleep(0)
            assert dict(link.dropped) == {("e", "lane_down"): 2}
            await asyncio.sleep(0.05)

    uvloop.run(go())


def test_a_conversation_that_nobody_listened_to_is_copied_once_it_begins_anew_and_counted_until_then(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        path, heard = tmp_path / "lane.sock", asyncio.get_running_loop().create_future()

        async def shadow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            unpacker = msgpack.Unpacker()
            while data := await reader.read(1 << 16):
                unpacker.feed(data)
                for kind, frame in unpacker:
                    heard.set_result((kind, frame["id"]))
            writer.close()

        link = link_to(path, asyncio.get_running_loop())
        for _ in range(3):
            offer(link, 7)
        assert dict(link.dropped) == {("e", "lane_down"): 3}
        async with await asyncio.start_unix_server(shadow, str(path)):
            await connected(link, path)
            offer(link, 7)
            async with asyncio.timeout(20):
                assert await heard == ("copy", "r7")
            assert dict(link.dropped) == {("e", "lane_down"): 3}
            link._transport.close()  # type: ignore[union-attr]
            await asyncio.sleep(0.05)

    uvloop.run(go())


def test_turns_of_conversations_that_began_before_are_counted_once_and_those_of_no_share_never(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        loop, bounds = asyncio.get_running_loop(), {"lane_bytes": 1 << 20, "copy_bytes": 1 << 20}
        first, second = (SamplingSpec(name, None, 1.0, b"salt") for name in ("first", "second"))
        # Nobody listens, and what comes is kept.
        link = LaneLink(loop, str(tmp_path / "no.sock"), [second], **bounds, sees_all=True, keeps_s=3600.0)

        def offered(root: int, turn: int, path: str = "/v1/chat/completions") -> None:
            prompt = Prompt("m", (root,), (4,), root, turn, False, None)
            link.copied(None, f"r{root}.{turn}", asked(path, path, HEADERS), b"{}", prompt, 1, 2)

        offered(1, 0)
        link.renew([first, second])  # the first has its choice first, and has not seen how they began
        offered(1, 1)
        assert dict(link.dropped) == {}, "the second has it from its first turn"
        offered(2, 5)
        offered(2, 6)
        offered(2, 7, path="/v1/threads")  # never copied, whenever it began
        assert dict(link.dropped) == {("first", "joined_late"): 2}
        link.switch({"first"})
        offered(2, 7)
        assert dict(link.dropped) == {("first", "joined_late"): 2, ("first", "paused"): 1}
        link.renew([SamplingSpec("none", None, 0.0, b"salt")])
        offered(3, 1)
        assert dict(link.dropped) == {}

    uvloop.run(go())


def test_by_session_what_the_client_names_decides_in_head_or_body_and_else_the_conversation() -> None:
    async def go() -> None:
        key = b"prefix key"
        spec = SamplingSpec("e", None, 0.5, b"salt", by_session=True)
        more: dict[str, Any] = {
            "lane_bytes": 1 << 20,
            "copy_bytes": 1 << 20,
            "sees_all": False,
            "keeps_s": 60,
        }
        links = [LaneLink(asyncio.get_running_loop(), "/nowhere", [spec], **more) for _ in range(2)]
        plain = LaneLink(asyncio.get_running_loop(), "/nowhere", [replace(spec, by_session=False)], **more)
        head = asked("/v1/chat/completions", "/v1/chat/completions", HEADERS)

        def taken(link: LaneLink, text: str, session: str | None = None, **fields: Any) -> bool:
            said = {"model": "m", "messages": [{"role": "user", "content": text}], **fields}
            body = json.dumps(said).encode()
            prompt = read("/v1/chat/completions", body, key)
            if session is not None:
                prompt = named_by(prompt, session.encode(), key)
            return link.copied(None, text, head, body, prompt, 1, 2) is not None

        decided = {}
        for number in range(40):
            name = f"session {number}"
            told = {
                taken(link, f"{link is links[0]} {name} {n}", name) for link in links for n in range(5)
            } | {taken(link, f"{link is links[0]} {name}", prompt_cache_key=name) for link in links}
            assert len(told) == 1
            decided[name] = told.pop()
        assert 5 < sum(decided.values()) < 35
        texts = [f"no session {number}" for number in range(40)]
        assert [taken(links[0], text) for text in texts] == [taken(plain, text) for text in texts]
        by_root = [taken(plain, f"again {n}", "session 0") for n in range(40)]
        assert True in by_root and False in by_root  # where it is not asked for, the name decides nothing

    asyncio.run(go())


def test_while_its_experiment_is_paused_no_copy_leaves_the_worker_and_each_is_counted(tmp_path: Path) -> None:
    async def go() -> None:
        path, reads = tmp_path / "lane.sock", list[list[Any]]()
        async with listening(path, reads, 2) as heard:
            link = link_to(path, asyncio.get_running_loop())
            await connected(link, path)
            try:
                offer(link, 1)
                link.switch({"e"})
                for number in range(2, 12):
                    offer(link, number)
                assert dict(link.dropped) == {("e", "paused"): 10}
                link.switch(set())
                offer(link, 12)  # the lane keeps the order: what had been written before would come before
                async with asyncio.timeout(20):
                    await heard.wait()
                assert [frame[1]["id"] for read in reads for frame in read] == ["r1", "r12"]
            finally:
                link._transport.close()  # type: ignore[union-attr]
                await asyncio.sleep(0)

    uvloop.run(go())
