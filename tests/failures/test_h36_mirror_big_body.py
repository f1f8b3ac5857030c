"""Requests above 1 MB are not mirrored and nobody says so; those without a body break the main request."""

import asyncio
import json

import pytest

from gateway.spec import LimitsSpec
from mirror.spec import ArmSpec
from tests.failures.shadowed import PATH, Shadowed, chat, shadowed
from tests.mirror.scripted import engine, tokens
from tests.support import FINISH, LAST, TOKEN, Engine, answers, ask, chunk, json_answer, post, streams
from tests.support_shared import run

COPY_BYTES = 1 << 20
READ_BYTES = 4 << 20
# What is copied as it is; what is above the cap on copies.
FITTING = (0, 300, 8_191, 8_192, 65_535, 65_536, 65_537, 1_000_000, COPY_BYTES - 1, COPY_BYTES)
ABOVE = (COPY_BYTES + 1, 1_100_000, READ_BYTES - 1, READ_BYTES)
STREAMED_BY = (READ_BYTES + 1, 30 << 20)


def chunked(body: bytes, size: int = 60_000) -> bytes:
    head = f"POST {PATH} HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nConnection: close\r\n"
    pieces = b"".join(chunk(body[at : at + size]) for at in range(0, len(body), size))
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + LAST


async def sent(running: Shadowed, production: Engine, bodies: list[bytes], *, in_chunks: bool) -> None:
    """Each is served by production, with its very bytes, whatever becomes of its copy."""
    for body in bodies:
        got = await ask(running.gateway.port, chunked(body) if in_chunks else post(body, PATH))
        assert got.status == 200 and got.is_whole, len(body)
        assert production.asked[-1].body == body


@pytest.mark.parametrize("in_chunks", [False, True], ids=["with a length", "in chunks"])
def test_h36_mirror_big_body_is_copied_whole_or_skipped_and_counted(in_chunks: bool) -> None:
    """Both arms get the same bytes as production, at every size up to the cap; above it the count moves."""

    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        bodies = [chat(n, size=size) for n, size in enumerate((*FITTING, *ABOVE))]
        assert [len(body) for body in bodies[1:]] == [*FITTING[1:], *ABOVE]
        async with engine(tokens) as control, engine(tokens) as candidate:
            arms = ArmSpec("control", control.url), ArmSpec("c", candidate.url)
            limits = LimitsSpec(read_bytes=READ_BYTES)
            async with shadowed(production, arms=arms, limits=limits, copy_bytes=COPY_BYTES) as running:
                await sent(running, production, bodies, in_chunks=in_chunks)
                books = await running.settled(len(bodies))
                assert (books["paired"], books["dropped"]) == (len(FITTING), {"too_large": len(ABOVE)})
            for arm in (control, candidate):
                got = sorted((request.body for request in arm.requests), key=len)
                for body, fitting in zip(got, bodies, strict=False):
                    asked = json.loads(body)
                    assert asked.pop("stream_options") == {"include_usage": True}  # the one rewrite declared
                    assert asked == json.loads(fitting)
                    assert int(arm.requests[0].headers["content-length"]) == len(arm.requests[0].body)
                assert len(got) == len(FITTING)

    run(test())


def test_h36_mirror_big_body_that_streams_by_unread_is_counted_as_skipped() -> None:
    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(tokens) as control:
            limits = LimitsSpec(read_bytes=READ_BYTES)
            arms = (ArmSpec("control", control.url),)
            async with shadowed(production, arms=arms, limits=limits, copy_bytes=COPY_BYTES) as running:
                bodies = [chat(n, size=size) for n, size in enumerate(STREAMED_BY)]
                await sent(running, production, bodies, in_chunks=False)
                async with asyncio.timeout(30):
                    books = await running.settled(len(bodies))
                assert books["dropped"] == {"too_large": len(bodies)}

    run(test())


def test_h36_mirror_big_body_that_streams_by_unread_reaches_production() -> None:
    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(tokens) as control:
            limits = LimitsSpec(read_bytes=READ_BYTES)
            arms = (ArmSpec("control", control.url),)
            async with shadowed(production, arms=arms, limits=limits, copy_bytes=COPY_BYTES) as running:
                for in_chunks in (False, True):
                    big = [chat(n, size=size) for n, size in enumerate(STREAMED_BY)]
                    await sent(running, production, big, in_chunks=in_chunks)
                await sent(running, production, [chat(9)], in_chunks=False)  # and the next is copied
                books = await running.settled(5)
                assert (books["paired"], books["dropped"]) == (1, {"too_large": 4})
            assert [len(request.body) < 1_000 for request in control.requests] == [True]

    run(test())


def test_h36_mirror_big_body_none_at_all_breaks_nothing() -> None:
    """GET, HEAD, DELETE and empty POSTs are answered by production alone."""

    async def test() -> None:
        production = Engine(answers(json_answer(b"{}")))
        async with (
            engine(tokens) as control,
            shadowed(production, arms=(ArmSpec("control", control.url),)) as it,
        ):
            for method in ("GET", "DELETE", "POST", "PUT"):
                for path in ("/v1/files", PATH, "/v1/embeddings"):
                    head = f"{method} {path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
                    got = await ask(it.gateway.port, head.encode(), 30)
                    assert got.status == 200 or (method, got.status) == ("POST", 400), (method, path)
            assert (await ask(it.gateway.port, post(b"", "/v1/x"))).status in (200, 400)
            await sent(it, production, [chat(1, stream=False)], in_chunks=False)
            await it.settled(1)
            assert it.gateway.inflight() == 0
            assert len(control.requests) == 1

    run(test())


def test_h36_mirror_big_body_at_a_lane_without_room_is_dropped_and_counted() -> None:
    """The lane takes what fits; production has all of it, and the books have the rest."""

    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(tokens) as control:
            arms = (ArmSpec("control", control.url),)
            async with shadowed(production, arms=arms, lane_bytes=1_500_000) as running:
                bodies = [
                    chat(n, size=size) for n, size in enumerate([1_400_000, 300, 1_600_000, 2_000_000] * 3)
                ]
                await sent(running, production, bodies, in_chunks=False)
                books = await running.settled(len(bodies))
                assert sum(books["dropped"].values()) + books["paired"] == len(bodies)
                assert sum(books["dropped"].values()) >= 6 and books["paired"] >= 3

    run(test())
