"""What is done for want of room: another fleet, a shorter answer, a refusal."""

import gzip
import json
from typing import Any

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec, RoomSpec
from tests.admission.staging import spec
from tests.gateway.test_turnstile import ANYBODY, OK, Turns, asking, chat, header, is_empty, refused, waiting
from tests.support import (
    CHAT,
    LAST,
    Engine,
    ask,
    chunk,
    post,
    running,
    until,
)
from tests.support_shared import run


def two_fleets(first: Engine, second: Engine) -> tuple[FleetSpec, ...]:
    return tuple(
        FleetSpec(name, (name,), name == "m", (EngineSpec(at, engine.url, kind="vllm"),), "least_load")
        for at, (name, engine) in enumerate((("m", first), ("small", second)))
    )


FORM = (
    b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n"model":"m"\r\n'
    b'--xx\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--xx--\r\n'
)


@pytest.mark.parametrize("way", ["json", "gzip", "form", "unread", "unread in chunks"])
def test_another_fleet_takes_what_finds_no_room_under_its_own_models_name(way: str) -> None:
    async def test() -> None:
        turns = Turns()
        first, second = Engine(turns.script), Engine(OK)
        await first.start()
        await second.start()
        rooms = (RoomSpec("m", concurrency=1, fallback="small"), RoomSpec("small"))
        limits = LimitsSpec(drain_s=5.0, read_bytes=5_000)
        async with running(
            first, second, fleets=two_fleets(first, second), limits=limits, admission=spec((ANYBODY,), rooms)
        ) as gateway:
            runs = asking(gateway, post(chat("runs")))
            await until(lambda: len(turns.ends) == 1)
            body = chat("é" * 4_000 if way.startswith("unread") else "é")
            sent = post(body)
            if way == "gzip":
                sent = post(gzip.compress(body), "/v1/chat/completions", "Content-Encoding: gzip")
            elif way == "form":
                sent = post(FORM, "/v1/audio/transcriptions").replace(
                    b"application/json", b"multipart/form-data; boundary=xx"
                )
            elif way == "unread in chunks":
                head = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
                sent = head + chunk(body[:6_000]) + chunk(body[6_000:]) + LAST
            got = await ask(gateway.port, sent)
            assert got.status == 200 and got.is_whole
            assert got.header("x-shadowlane-degraded") == ["fleet=small"]
            (peer,) = second.asked
            expected = FORM.replace(b"\r\nm\r\n", b"\r\nsmall\r\n")
            if way != "form":
                expected = body.replace(b'"m"', b'"small"')
            assert peer.body == expected
            assert header(peer, "content-encoding") == []
            turns.end(0)
            whole = await runs
            assert whole.is_whole and whole.header("x-shadowlane-degraded") == []
            assert is_empty(gateway)

    run(test())


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "gzip"])
@pytest.mark.parametrize(
    ("path", "asked", "got", "is_told"),
    [
        ("/v1/chat/completions", {}, {"max_tokens": 8}, True),
        ("/v1/chat/completions", {"max_completion_tokens": 100}, {"max_completion_tokens": 8}, True),
        ("/v1/chat/completions", {"max_tokens": 3}, {"max_tokens": 3}, False),
        ("/v1/embeddings", {"input": "x"}, {}, False),
    ],
)
def test_who_had_to_wait_gets_a_shorter_answer_and_is_told_where_it_is_shorter(
    path: str, asked: dict[str, Any], got: dict[str, Any], is_told: bool, packed: bool
) -> None:
    async def test() -> None:
        turns = Turns()
        room = (RoomSpec(None, concurrency=1, shorten_to=8),)
        async with running(Engine(turns.script), admission=spec((ANYBODY,), room)) as gateway:
            body = chat("x", **asked)
            sent = post(gzip.compress(body), path, "Content-Encoding: gzip") if packed else post(body, path)
            first = asking(gateway, sent)
            await until(lambda: len(turns.ends) == 1)
            second = asking(gateway, sent)
            await until(lambda: waiting(gateway) == 1)
            turns.end(0)
            await until(lambda: len(turns.ends) == 2)
            turns.end(1)
            assert (await first).header("x-shadowlane-degraded") == []
            told = await second
            assert told.status == 200
            assert told.header("x-shadowlane-degraded") == (["max_tokens=8"] if is_told else [])
            if is_told or not packed:
                heard = json.loads(turns.ends[1][0])
                assert heard == {**json.loads(body), **got}

    run(test())


@pytest.mark.parametrize("waits", [False, True], ids=["nobody waits", "too large to be held"])
def test_a_full_fleet_says_so_to_what_may_not_wait(waits: bool) -> None:
    async def test() -> None:
        turns = Turns()
        room = (RoomSpec(None, concurrency=1, waits=waits),)
        limits = LimitsSpec(drain_s=5.0, read_bytes=50_000)
        async with running(Engine(turns.script), limits=limits, admission=spec((ANYBODY,), room)) as gateway:
            runs = asking(gateway, post(chat("runs")))
            await until(lambda: len(turns.ends) == 1)
            got = await ask(gateway.port, post(chat("A" * 90_000) if waits else CHAT))
            assert got.status == 503 and refused(got) == "fleet_full"
            assert got.header("x-shadowlane-degraded") == ["refused"]
            assert int(got.header("retry-after")[0]) >= 1
            turns.end(0)
            assert (await runs).status == 200
            assert is_empty(gateway)

    run(test())
