"""H31 fleet-changes: engines come and go under running streams; nobody is cut, or sent to the unready."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random

import pytest

from gateway.fleets.fleet import Engine as Known
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.connections import unheard
from tests.gateway.whole import begin, with_engines
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
    Gateway,
    Peer,
    ask,
    event,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import later
from wire.upstream import Pool

STREAMS = 10


class Stage:
    """Engines whose streams go on until they are let go, each stream naming its engine."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def engine(self, name: str, port: int = 0) -> Engine:
        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN.replace("tok", name)))
            await self.go_on.wait()
            await peer.send(event(TOKEN.replace("tok", name)), event(FINISH), event("[DONE]"), LAST)

        return Engine(script, port=port)


def specs(*engines: tuple[int, Engine]) -> tuple[EngineSpec, ...]:
    return tuple(EngineSpec(id, engine.url, kind="vllm") for id, engine in engines)


def fleet(*engines: tuple[int, Engine], policy: str = "least_load") -> tuple[FleetSpec, ...]:
    return (FleetSpec(None, (), True, specs(*engines), policy),)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def objects(kind: type) -> int:
    gc.collect()
    return sum(type(one) is kind for one in gc.get_objects())


def test_streams_at_an_engine_that_is_taken_out_end_as_they_would_have_and_it_gets_no_new_request() -> None:
    async def test(stack: AsyncExitStack) -> None:
        stage = Stage()
        old, stays = stage.engine("old"), streams(TOKEN, FINISH)
        other = Engine(stays)
        await begin(stack, other)
        async with running(old) as gateway:
            asked = [later(ask(gateway.port, post())) for _ in range(STREAMS)]
            await until(lambda: len(old.asked) == STREAMS)
            assert await gateway.renew(fleets=fleet((0, old), (1, other))) is None
            assert await gateway.renew(fleets=fleet((1, other))) is None
            # The old one serves until the new one was heard: then no more.
            await until_served_by(gateway, other)
            before = len(old.asked)
            for _ in range(20):
                assert (await ask(gateway.port, post())).status == 200
            assert len(old.asked) == before
            assert gateway.inflight(0) == before
            stage.go_on.set()
            for answer in await asyncio.gather(*asked):
                assert answer.status == 200 and answer.is_whole and answer.text.endswith(b"data: [DONE]\n\n")
                assert answer.text.count(b"old") == 2
            await until(lambda: gateway.inflight(0) == 0)

    with_engines(test)


async def until_served_by(gateway: Gateway, engine: Engine) -> None:
    async with asyncio.timeout(20):
        seen = len(engine.asked)
        while len(engine.asked) < seen + 3:
            answer = later(ask(gateway.port, post()))
            await asyncio.wait({answer}, timeout=0.2)
            if not answer.done():
                answer.cancel()
                await asyncio.gather(answer, return_exceptions=True)


def test_an_engine_taken_out_has_a_bounded_time_and_its_streams_then_end_visibly() -> None:
    async def test(stack: AsyncExitStack) -> None:
        stage = Stage()
        old, other = stage.engine("old"), Engine(streams(TOKEN, FINISH))
        await begin(stack, other)
        async with running(old, limits=LimitsSpec(drain_s=5.0, leaving_s=0.5)) as gateway:
            asked = later(ask(gateway.port, post()))
            await until(lambda: len(old.asked) == 1)
            assert await gateway.renew(fleets=fleet((1, other))) is None
            answer = await asked
            assert not answer.is_whole
            assert b'"upstream_cut"' in answer.text and b"stopped using this engine" in answer.text
            await until(lambda: gateway.inflight(0) == 0)

    with_engines(test)


def test_an_engine_that_is_added_is_used_only_after_it_was_heard_and_then_within_five_seconds() -> None:
    async def test(stack: AsyncExitStack) -> None:
        first = Engine(streams(TOKEN, FINISH))
        port = stack.enter_context(unheard())
        late = Engine(streams(TOKEN, FINISH), port=port)
        async with running(first, policy="round_robin") as gateway:
            assert await gateway.renew(fleets=fleet((0, first), (1, late), policy="round_robin")) is None
            for _ in range(30):  # its port is not open: not one request may go there, be tried or fail
                answer = await ask(gateway.port, post())
                assert answer.status == 200 and answer.is_whole
            assert len(first.asked) == 30
            await begin(stack, late)
            async with asyncio.timeout(30):
                while not late.asked:
                    assert (await ask(gateway.port, post())).status == 200
                    await asyncio.sleep(0.05)

    with_engines(test)


def test_an_engine_that_answers_its_port_but_not_its_probe_is_not_used_yet() -> None:
    async def test(stack: AsyncExitStack) -> None:
        first, loading = Engine(streams(TOKEN, FINISH)), Engine(streams(TOKEN, FINISH))
        loading.probe_status = "503 Service Unavailable"
        await begin(stack, loading)
        async with running(first, policy="round_robin") as gateway:
            assert await gateway.renew(fleets=fleet((0, first), (1, loading), policy="round_robin")) is None
            for _ in range(20):
                assert (await ask(gateway.port, post())).status == 200
            assert not loading.asked
            loading.probe_status = "200 OK"
            async with asyncio.timeout(30):
                while not loading.asked:
                    assert (await ask(gateway.port, post())).status == 200
                    await asyncio.sleep(0.05)

    with_engines(test)


def test_replacing_every_engine_at_once_fails_no_request() -> None:
    async def test(stack: AsyncExitStack) -> None:
        old = [Engine(streams(TOKEN, FINISH)) for _ in range(2)]
        new = [Engine(streams(TOKEN, FINISH)) for _ in range(2)]
        for engine in new:
            engine.probe_status = "503 Service Unavailable"  # they load a model first
        await begin(stack, *new)
        async with running(*old) as gateway:
            ends = asyncio.Event()
            answers: list[int] = []

            async def client() -> None:
                while not ends.is_set():
                    answer = await ask(gateway.port, post())
                    answers.append(answer.status if answer.is_whole else 0)

            clients = asyncio.gather(*(client() for _ in range(4)))
            assert await gateway.renew(fleets=fleet((2, new[0]), (3, new[1]))) is None
            seen = len(answers)
            await until(lambda: len(answers) > seen + 20)
            for engine in new:
                engine.probe_status = "200 OK"
            await until(lambda: bool(new[0].asked and new[1].asked), 20)
            async with asyncio.timeout(20):  # and once the new ones serve, the old ones do no more
                served = -1
                while served != (served := sum(len(engine.asked) for engine in old)):
                    seen = len(answers)
                    await until(lambda seen=seen: len(answers) > seen + 50)  # type: ignore[misc]
            ends.set()
            await clients
            assert set(answers) == {200}

    with_engines(test)


def conversations(n: int) -> Iterator[bytes]:
    rng = Random(7)
    for _ in range(n):
        text = "".join(rng.choices("abcdefgh ", k=4000))
        yield (b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%b"}]}') % text.encode()


def test_one_engine_more_moves_few_conversations_and_one_less_only_its_own() -> None:
    """Four engines hold the conversations; a fifth comes, and takes what is new, not what others hold."""

    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(5)]
        await begin(stack, *engines)
        talks = list(conversations(40))
        holders: dict[bytes, Engine] = {}

        async def turn(gateway: Gateway) -> int:
            moved = 0
            for talk in talks:
                before = [len(engine.asked) for engine in engines]
                assert (await ask(gateway.port, post(talk))).status == 200
                now = next(e for e, n in zip(engines, before, strict=True) if len(e.asked) > n)
                moved += holders.get(talk, now) is not now
                holders[talk] = now
            return moved

        numbered = list(enumerate(engines))
        four, five = (fleet(*numbered[:n], policy="prefix_cost") for n in (4, 5))
        async with running(fleets=four) as gateway:
            await turn(gateway)
            assert await turn(gateway) == 0
            assert await gateway.renew(fleets=five) is None
            await asyncio.sleep(0.3)  # it is heard, and may be chosen
            assert await turn(gateway) <= len(talks) // 5
            lost = sum(holder is engines[0] for holder in holders.values())
            assert lost
            assert await gateway.renew(fleets=fleet(*numbered[1:], policy="prefix_cost")) is None
            assert await turn(gateway) == lost

    with_engines(test)


@asynccontextmanager
async def on_six(engine: Engine) -> AsyncIterator[int]:
    server = await asyncio.start_server(engine._serve, "::1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in list(engine._writers):
            writer.transport.abort()
        await server.wait_closed()


def test_an_engine_with_an_ipv6_address_is_added_and_named_in_brackets() -> None:
    async def test(stack: AsyncExitStack) -> None:
        first, six = Engine(streams(TOKEN, FINISH)), Engine(streams(TOKEN, FINISH))
        try:
            stage = on_six(six)
            port = await stage.__aenter__()
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
        try:
            async with running(first) as gateway:
                added = EngineSpec(1, f"http://[::1]:{port}", kind="vllm")
                assert (
                    await gateway.renew(fleets=(replace(gateway.spec.fleets[0], engines=(added,)),)) is None
                )
                await until_served_by(gateway, six)
                peer = six.asked[-1]
                assert (
                    dict(peer.headers)["Host" if "Host" in dict(peer.headers) else "host"] == f"[::1]:{port}"
                )
        finally:
            await stage.__aexit__(None, None, None)

    with_engines(test)


def test_a_key_that_changes_is_sent_from_the_next_request_on_and_the_engine_is_not_new_by_that() -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine) as gateway:
            for key in ("one", "two"):
                spec = EngineSpec(0, engine.url, kind="vllm", api_key=key)
                assert await gateway.renew(fleets=(replace(gateway.spec.fleets[0], engines=(spec,)),)) is None
                assert (await ask(gateway.port, post())).status == 200
                sent = {name.lower(): value for name, value in engine.asked[-1].headers}
                assert sent["authorization"] == f"Bearer {key}"

    with_engines(test)


def test_a_policy_that_cannot_be_built_changes_nothing() -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine) as gateway:
            good = gateway.spec.fleets
            bad = replace(good[0], policy="no_such_policy", engines=())
            error = await gateway.renew(fleets=(bad,))
            assert error is not None and "no_such_policy" in error
            assert (await ask(gateway.port, post())).status == 200
            assert await gateway.renew(fleets=good) is None
            assert (await ask(gateway.port, post())).status == 200

    with_engines(test)


def test_an_engine_that_goes_down_is_told_of_so_that_its_name_is_looked_up_again() -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine = Engine(streams(TOKEN, FINISH))
        async with running(engine) as gateway:
            assert (await ask(gateway.port, post())).status == 200
            await engine.stop()
            await until(lambda: gateway.unreached == ["default"], 20)

    with_engines(test)


def test_a_hundred_changes_leave_no_descriptor_and_no_task_behind() -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        async with running(engines[0]) as gateway:

            async def change(turn: int) -> None:
                here = [(turn % 60, engines[0]), ((turn + 1) % 60, engines[1 + turn % 2])]
                assert await gateway.renew(fleets=fleet(*here)) is None
                answer = await ask(gateway.port, post())
                assert answer.status == 200 and answer.is_whole

            for turn in range(10):
                await change(turn)
            await asyncio.sleep(1.5)
            before = descriptors(), len(asyncio.all_tasks())
            for turn in range(10, 110):
                await change(turn)
            await until(lambda: descriptors() <= before[0] + 2 and len(asyncio.all_tasks()) <= before[1], 20)
            await until(lambda: objects(Pool) <= 4 and objects(Known) <= 4, 30)

    with_engines(test)
