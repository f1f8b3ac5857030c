"""I1: what a worker does for a copy comes after what it does for its client, and is little, come what may.

Seen are the steps themselves (the interpreter tells of each call), so no time is measured.  How much it comes
to in time is `bench/isolation.py`'s to say.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gateway import attempt
from gateway.spec import SamplingSpec
from tests.failures.shadowed import PATH, chat, connections
from tests.standing import run, standing
from tests.support import FINISH, LAST, SSE_HEAD, TOKEN, Engine, Gateway, Peer, event, post, running, until

pytestmark = pytest.mark.skipif(
    not str(attempt.__file__).endswith(".py"), reason="the interpreter tells of no call in compiled code"
)

ROOT = Path(__file__).resolve().parents[3]
OURS = tuple(f"{ROOT / room}/" for room in ("gateway", "wire", "routing", "mirror"))
# What the loop calls when something came or was put off; all else a worker does by the clock.
CALLED = ("data_received", "buffer_updated", "eof_received", "_flush", "_go_on")

LINGERED_S = 0.3  # after which production's answer has been written to the lane, too


@dataclass
class Steps:
    """Every call that the worker made for its connections, and every write to a socket: a list for each time
    that the loop called it."""

    made: list[list[str]] = field(default_factory=list)
    _ports: tuple[int, int] = (0, 0)
    _inside: FrameType | None = None

    def told(self, frame: FrameType, kind: str, about: Any) -> None:
        code = frame.f_code
        if kind == "call" and code.co_filename.startswith(OURS):
            if self._inside is None and code.co_name in CALLED:
                self._inside = frame
                self.made.append([])
            if self._inside is not None:
                self.made[-1].append(code.co_name)
        elif kind == "return" and frame is self._inside:
            self._inside = None
        elif kind == "c_call":
            if isinstance(about.__self__, socket.socket) and about.__name__ in ("send", "sendmsg"):
                if (whose := self._whose(about.__self__)) is not None:
                    self.made[-1].append(whose)
            elif self._inside is not None and code.co_filename.startswith(OURS):
                self.made[-1].append(about.__name__)

    def _whose(self, end: socket.socket) -> str | None:
        """To whom the worker writes; None: the test's own engine or client does."""
        if end.family == socket.AF_UNIX:
            return "to the lane"
        gateway, engine = self._ports
        if end.getsockname()[1] == gateway:
            return "to the client"
        return "to the engine" if end.getpeername()[1] == engine else None


@contextmanager
def seen(gateway: Gateway, engine: Engine) -> Iterator[Steps]:
    steps = Steps(_ports=(gateway.port, engine.port))
    before = sys.getprofile()
    sys.setprofile(steps.told)
    try:
        yield steps
    finally:
        sys.setprofile(before)


class InStep:
    """An engine that says a token when its client has read the one before: no two come together."""

    def __init__(self) -> None:
        self.engine = Engine(self._answer)
        self.tokens = 0
        self._more = asyncio.Event()

    async def _answer(self, peer: Peer) -> None:
        await peer.send(SSE_HEAD + event(TOKEN))
        for _ in range(self.tokens - 1):
            await self._more.wait()
            self._more.clear()
            await peer.send(event(TOKEN))
        await self._more.wait()
        self._more.clear()
        await peer.send(event(FINISH) + event("[DONE]") + LAST)

    async def ask(self, link: "Link", tokens: int, n: int) -> None:
        self.tokens = tokens
        link.writer.write(post(chat(n), PATH, close=False))
        for _ in range(tokens):
            await asyncio.wait_for(link.reader.readuntil(TOKEN.encode() + b"\n\n\r\n"), 20)
            self._more.set()
        await asyncio.wait_for(link.reader.readuntil(LAST), 20)


@dataclass
class Link:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@asynccontextmanager
async def kept(gateway: Gateway) -> AsyncIterator[Link]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        yield Link(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def worker(engine: Engine, shadow: str) -> AsyncIterator[Gateway]:
    """A worker: nothing is copied; or it is, to a shadow that reads, that does not, or that is not there."""
    ends: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)
        if shadow == "stalled":
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            return
        while await reader.read(1 << 16):
            pass

    samplings = () if shadow == "off" else (SamplingSpec("trial", None, 1.0, b"salt"),)
    async with running(engine, experiments=samplings) as gateway:
        if shadow in ("off", "gone"):
            yield gateway
            return
        path = str(gateway.run_dir / "lane.sock")
        server = await asyncio.start_unix_server(serve, path)
        try:
            await until(lambda: connections(path) > 0, 30)
            yield gateway
        finally:
            server.close()
            for end in ends:
                end.transport.abort()


async def steps_of(shadow: str, tokens: int = 9) -> list[list[str]]:
    """One answer of so many tokens, over connections that are kept."""
    stage = InStep()
    async with worker(stage.engine, shadow) as gateway, kept(gateway) as link:
        for n in range(3):
            await stage.ask(link, 2, n)
        await asyncio.sleep(LINGERED_S)
        with seen(gateway, stage.engine) as steps:
            await stage.ask(link, tokens, 9)
            await asyncio.sleep(LINGERED_S)
    return steps.made


def test_i1_a_copy_is_made_when_the_engine_has_the_request_and_handed_over_when_the_client_has_all() -> None:
    made = [step for steps in asyncio.run(steps_of("reads")) for step in steps]
    sent = [step for step in made if step.startswith("to the ")]
    assert sent[0] == "to the engine" and sent[-1] == "to the lane"
    assert set(sent[1:]) == {"to the client", "to the lane"} and sent.count("to the lane") <= 2
    assert made.count("pack_copy") == made.count("pack_served") == 1
    assert made.index("to the engine") < made.index("pack_copy")
    assert len(made) - made[::-1].index("to the client") <= made.index("pack_served")


def test_i1_while_no_time_passes_nothing_is_handed_over_so_requests_and_answers_go_first() -> None:
    """Where a worker shares its core with the shadow process, who is woken takes the turn of who serves."""

    async def test() -> None:
        stage = InStep()
        async with worker(stage.engine, "reads") as gateway, kept(gateway) as link:
            for n in range(3):
                await stage.ask(link, 2, n)
            await asyncio.sleep(LINGERED_S)
            with seen(gateway, stage.engine) as steps:
                with standing():
                    await stage.ask(link, 9, 9)
                made = [step for some in steps.made for step in some]
                assert {"pack_copy", "to the engine", "to the client"} <= set(made)
                assert "to the lane" not in made
                await until(lambda: any("to the lane" in some for some in steps.made), 30)

    run(test())


def test_i1_a_chunk_costs_three_short_steps_more_whatever_becomes_of_the_copy() -> None:
    """Keeping it: a call, a length, an append.  It is neither read nor packed until the answer is whole."""

    async def a_chunk(shadow: str) -> list[str]:
        chunks = [sorted(steps) for steps in await steps_of(shadow) if "body_came" in steps]
        later = chunks[3:8]  # neither the first, by which the head goes, too, nor the last
        assert later == [later[0]] * 5 and later[0].count("to the client") == 1
        return later[0]

    async def test() -> None:
        off = await a_chunk("off")
        assert await a_chunk("gone") == off
        for shadow in ("reads", "stalled"):
            assert await a_chunk(shadow) == sorted([*off, "read", "len", "append"]), shadow

    asyncio.run(test())


def test_i1_what_follows_the_sending_of_a_request_is_the_same_when_the_shadow_process_hangs() -> None:
    async def after(shadow: str) -> list[str]:
        steps = next(steps for steps in await steps_of(shadow) if "to the engine" in steps)
        return steps[steps.index("to the engine") :]

    async def test() -> None:
        usual = await after("reads")
        assert "pack_copy" in usual and "pack_copy" not in await after("off")
        assert await after("stalled") == usual

    asyncio.run(test())
