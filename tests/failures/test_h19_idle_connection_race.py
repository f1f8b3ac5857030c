"""An engine closes a kept connection just as the next request is sent on it: rare 502s after quiet spells."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED, PATH, at_once, last_counts, number, numbered, reset, told
from tests.support import LAST, SSE_HEAD, Engine, Peer, answers, ask, event, json_answer, post, running, until
from tests.support_shared import run

ENDINGS: dict[str, Callable[[Peer], None]] = {"closes": Peer.close, "resets": reset}
ending_each = pytest.mark.parametrize("ending", ENDINGS)


def connection(peer: Peer) -> int:
    """Which of the gateway's connections a request came on."""
    port: int = peer.writer.get_extra_info("peername")[1]
    return port


@ending_each
def test_h19_idle_connection_race_costs_no_request_and_doubles_none(ending: str) -> None:
    """The engine ends each connection a while after its answer, without saying so; requests come then."""

    async def script(peer: Peer) -> None:
        await peer.send(json_answer(b"{}"))
        await asyncio.sleep(0.005)
        ENDINGS[ending](peer)

    async def test() -> None:
        engine = Engine(script)

        async def client(first: int) -> None:
            for n in range(first, first + 40):
                got = await ask(gateway.port, numbered(n, NOT_STREAMED))
                assert (got.status, got.body) == (200, b"{}")
                await asyncio.sleep((3 + n % 7 * 0.6) / 1e3)

        async with running(engine) as gateway:
            await at_once(client(first) for first in range(0, 400, 40))
        asked = Counter(map(number, engine.asked))
        assert asked == Counter(range(400))

    run(test())


def dies_on_reuse(ending: str, before: bytes = b"") -> Engine:
    """It answers the first request of each connection; on a further one it says `before` and ends."""
    seen: Counter[int] = Counter()

    async def script(peer: Peer) -> None:
        seen[connection(peer)] += 1
        if seen[connection(peer)] == 1:
            await peer.send(json_answer(b"{}"))
            return
        await peer.send(before)
        await asyncio.sleep(0.005)
        ENDINGS[ending](peer)

    return Engine(script)


@ending_each
def test_h19_idle_connection_race_is_repeated_once_on_a_fresh_connection(ending: str) -> None:
    """One engine: the request whose reused connection died unanswered is sent again there, once."""

    async def test() -> None:
        engine = dies_on_reuse(ending)
        async with running(engine) as gateway:
            for n in range(6):
                assert (await ask(gateway.port, numbered(n, NOT_STREAMED))).status == 200
            assert gateway.loads.totals(0) == (0, 0, 0, 0)
        asked = Counter(map(number, engine.asked))
        assert (
            max(asked.values()) == 2 and sum(asked.values()) > 6
        )  # it did die under some, and was asked again

    run(test())


@ending_each
def test_h19_idle_connection_race_goes_to_another_engine_if_there_is_one(ending: str) -> None:
    async def test() -> None:
        dying, other = dies_on_reuse(ending), Engine(answers(json_answer(b"{}")))
        async with running(dying, other, policy="round_robin") as gateway, told(gateway.run_dir) as heard:
            for n in range(12):
                assert (await ask(gateway.port, numbered(n, NOT_STREAMED))).status == 200
            assert gateway.loads.totals(0) == gateway.loads.totals(1) == (0, 0, 0, 0)
            moved = set(map(number, dying.asked)) & set(map(number, other.asked))
            assert moved and max(Counter(map(number, dying.asked)).values()) == 1
            assert (await last_counts(gateway, heard)).get("retried") == len(moved)

    run(test())


@ending_each
def test_h19_idle_connection_race_is_none_on_a_fresh_connection(ending: str) -> None:
    """A connection made for this request that dies unanswered is a 502: the engine may have begun."""

    async def script(peer: Peer) -> None:
        ENDINGS[ending](peer)

    async def test() -> None:
        engine = Engine(script)
        async with running(engine) as gateway:
            got = await ask(gateway.port, post(NOT_STREAMED))
            assert got.status == 502 and b"upstream_cut" in got.body
        assert len(engine.asked) == 1

    run(test())


@ending_each
@pytest.mark.parametrize("before", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Hints\r\n\r\n"])
def test_h19_idle_connection_race_is_none_once_a_byte_came(ending: str, before: bytes) -> None:
    """The engine had begun: its death is a 502 and not a second request to it."""

    async def test() -> None:
        engine = dies_on_reuse(ending, before)
        async with running(engine) as gateway:
            statuses = [(await ask(gateway.port, numbered(n, NOT_STREAMED))).status for n in range(4)]
        assert set(statuses) == {200, 502}
        assert Counter(map(number, engine.asked)) == Counter(range(4))

    run(test())


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches", "/v1/responses", "/v1/fine_tuning/jobs"])
@pytest.mark.parametrize("engines", [1, 2])
def test_h19_idle_connection_race_is_repeated_on_stateless_paths_only(path: str, engines: int) -> None:
    """What leaves something behind may be there twice, here or there: the client is told, and decides."""

    async def test() -> None:
        fleet = [dies_on_reuse("closes") for _ in range(engines)]
        async with running(*fleet, policy="round_robin") as gateway:
            for n in range(8):
                await ask(gateway.port, numbered(n, NOT_STREAMED, path=path))
        asked = Counter(number(peer) for engine in fleet for peer in engine.asked)
        assert asked == Counter(range(8))

    run(test())


@pytest.mark.parametrize("path", ["/v1/responses", PATH])
@pytest.mark.parametrize(
    ("refused", "taken"),
    [
        (json_answer(b"{}", "503 Busy"), False),
        (json_answer(b"{}", "429 Busy"), False),
        (json_answer(b"{}", "502 Broken"), True),
        (SSE_HEAD + event('{"error":{"message":"x","code":503}}') + LAST, True),
        (SSE_HEAD[:30], True),
        (SSE_HEAD, True),
    ],
    ids=["503", "429", "502", "an error inside a 200", "half a head", "a head"],
)
def test_h19_idle_connection_race_is_not_the_only_doubt(refused: bytes, taken: bool, path: str) -> None:
    """What an engine says that it did not take goes elsewhere on any path; what it may have, on some."""

    async def refuses(peer: Peer) -> None:
        await peer.send(refused)
        peer.close()

    async def test() -> None:
        engines = [Engine(refuses), Engine(refuses)]
        async with running(*engines) as gateway:
            await ask(gateway.port, post(NOT_STREAMED, path))
        moved = not taken or path == PATH
        assert sorted(len(engine.asked) for engine in engines) == [int(moved), 1]

    run(test())


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/files", PATH])
def test_h19_idle_connection_race_where_nobody_was_reached_any_request_goes_elsewhere(path: str) -> None:
    async def test() -> None:
        gone, there = Engine(answers(b"")), Engine(answers(json_answer(b"{}")))
        async with running(gone, there, policy="round_robin") as gateway:
            await gone.stop()
            for _ in range(4):
                assert (await ask(gateway.port, post(NOT_STREAMED, path))).status == 200
        assert not gone.asked and len(there.asked) == 4

    run(test())


@ending_each
def test_h19_idle_connection_race_an_end_that_was_there_before_is_seen_before_use(ending: str) -> None:
    """A connection that the engine ended while it was idle carries no request: nothing needs a repeat."""

    async def test() -> None:
        waiting: list[Peer] = []

        async def script(peer: Peer) -> None:
            await peer.send(json_answer(b"{}"))
            waiting.append(peer)

        engine = Engine(script)
        async with running(engine, Engine(script)) as gateway, told(gateway.run_dir) as heard:
            for n in range(30):
                assert (await ask(gateway.port, numbered(n, NOT_STREAMED))).status == 200
                for peer in waiting:
                    ENDINGS[ending](peer)
                waiting.clear()
                # The engine's end has reached the gateway's socket, and its loop need not have heard of it.
                await asyncio.sleep(0)
            assert (await last_counts(gateway, heard)).get("complete") == 30
            assert heard.counts["retried"] == 0

    run(test())


def test_h19_idle_connection_race_a_body_that_cannot_be_sent_twice_meets_no_kept_connection() -> None:
    """One that went by unread is sent on a connection of its own."""

    async def test() -> None:
        ports: list[int] = []

        async def script(peer: Peer) -> None:
            ports.append(connection(peer))
            await peer.send(json_answer(b"{}"))

        async with running(Engine(script), limits=LimitsSpec(read_bytes=1000)) as gateway:
            for _ in range(4):
                assert (await ask(gateway.port, post(b"[" + b"1," * 5000))).status == 200
        assert len(set(ports)) == 4

    run(test())


# What an engine says of its limit, and between which seconds the gateway then closes.
PROMISES = {
    "X: 1": (2.9, 6.5),  # nothing: 4 s
    "Keep-Alive: timeout=2": (0.9, 3.5),
    "keep-alive: max=9, timeout=2": (0.9, 3.5),
}


def test_h19_idle_connection_race_is_avoided_by_closing_first() -> None:
    """Kept connections are closed by the gateway before the engine's limit: 4 s, or less where it says so."""

    async def idle_s(field: str) -> float:
        """How long the gateway kept a connection to an engine that says this."""
        closed_after_s: list[float] = []

        async def script(peer: Peer) -> None:
            await peer.send(json_answer(b"{}", "200 OK", field))
            since = asyncio.get_running_loop().time()
            assert await peer.reader.read(1) == b""
            closed_after_s.append(asyncio.get_running_loop().time() - since)

        async with running(Engine(script)) as gateway:
            assert (await ask(gateway.port, post(NOT_STREAMED))).status == 200
            await until(lambda: bool(closed_after_s))
        return closed_after_s[0]

    async def test() -> None:
        kept_s = await at_once(map(idle_s, PROMISES))
        for (least_s, most_s), kept in zip(PROMISES.values(), kept_s, strict=True):
            assert least_s < kept < most_s

    run(test())
