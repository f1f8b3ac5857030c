"""H30 health-flap: what is held of an engine is as old as its last probe, and no request fails for that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.spec import EngineSpec, FleetSpec, HealthSpec, KeySpec, RoomSpec
from tests.admission.staging import spec
from tests.failures.support import told
from tests.support import (
    FINISH,
    TOKEN,
    Engine,
    Gateway,
    Peer,
    Script,
    ask,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import run

QUICK = HealthSpec(probe_every_s=0.05, failures=2)


async def dies(peer: Peer) -> None:
    """The engine that is taken to be well dies with every request, before it says a word."""
    peer.close()


@asynccontextmanager
async def one_gone(gone: Engine, *well: Engine, places: int | None = None) -> AsyncIterator[Gateway]:
    """A gateway that takes the first of them for gone, although it would answer."""
    gone.probe_status = "503 Loading"
    engines = (gone, *well)
    for engine in engines:
        await engine.start()
    specs = tuple(
        EngineSpec(number, one.url, kind="vllm", concurrency=places) for number, one in enumerate(engines)
    )
    fleets = [FleetSpec(None, (), True, specs, "least_load", {}, QUICK)]
    admission = spec((KeySpec("anonymous", 0),), (RoomSpec(None),)) if places else None
    async with (
        running(*engines, fleets=fleets, admission=admission) as gateway,
        told(gateway.run_dir) as heard,
    ):
        await until(lambda: bool(heard.engines) and heard.engines[0]["state"] == "gone")
        yield gateway


def test_h30_where_all_that_are_well_fail_who_is_taken_to_be_gone_is_asked() -> None:
    async def test() -> None:
        gone, well = Engine(streams(TOKEN, FINISH)), Engine(dies)
        async with one_gone(gone, well) as gateway:
            for n in range(1, 6):
                assert (await ask(gateway.port, post())).is_whole
                assert len(gone.asked) == n
            assert well.asked  # the one that is well first, as long as it is taken to be

    run(test())


def test_h30_where_one_failed_and_the_others_have_no_place_who_is_taken_to_be_gone_is_asked() -> None:
    async def test() -> None:
        leaves = asyncio.Event()

        async def stays(peer: Peer) -> None:
            await leaves.wait()
            await streams(TOKEN, FINISH)(peer)

        gone, well, full = Engine(streams(TOKEN, FINISH)), Engine(dies), Engine(stays)
        async with one_gone(gone, well, full, places=1) as gateway:
            first = asyncio.get_running_loop().create_task(ask(gateway.port, post()))
            await until(lambda: bool(full.asked))
            assert (await ask(gateway.port, post())).is_whole
            assert (len(gone.asked), len(full.asked)) == (1, 1) and well.asked
            leaves.set()
            assert (await first).is_whole

    run(test())


def test_h30_where_nobody_answers_no_engine_is_asked_without_end() -> None:
    async def test() -> None:
        gone, well = Engine(dies), Engine(dies)
        async with one_gone(gone, well) as gateway:
            assert (await ask(gateway.port, post())).status == 502
            # Once more on a fresh connection where it was an idle one that died.
            assert len(well.asked) in (1, 2) and len(gone.asked) in (1, 2)

    run(test())


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_h30_one_that_is_busy_is_believed_before_one_that_is_taken_to_be_gone(status: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(json_answer(b'{"error":{"message":"full"}}', status, "Retry-After: 60"))

    async def test(busy: Script) -> None:
        gone, well = Engine(streams(TOKEN, FINISH)), Engine(busy)
        async with one_gone(gone, well) as gateway:
            got = await ask(gateway.port, post())
            assert (f"{got.status}", got.header("retry-after")) == (status[:3], ["60"])
            assert (len(well.asked), len(gone.asked)) == (1, 0)

    run(test(script))
