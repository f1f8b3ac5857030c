"""H30 health-flap: slow is not dead, what fails is left out, and there is always somebody to ask."""

import asyncio
from dataclasses import dataclass

import pytest

from gateway.fleets.fleet import Engine as Known
from gateway.processes.status import engine_series
from gateway.spec import EngineSpec, FleetSpec, HealthSpec
from tests.failures.support import at_once, told
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    ask,
    event,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import run

QUICK = HealthSpec(probe_every_s=0.05, probe_timeout_s=0.1, quiet_s=0.2, failures=2, ejection_s=0.5)
GET = b"GET /health HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n"


@dataclass
class Probed(Engine):
    """A scripted engine whose answers to probes are scripted too: a status, or silence."""

    probes: int = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET "):
                self.probes += 1
                if self.probe_status == "silence":
                    await reader.read()
                else:
                    writer.write(json_answer(b"{}", self.probe_status, "Connection: close"))
                    await writer.drain()
                return
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0]))
            peer = Peer(reader, writer, head.decode().partition("\r\n")[0], [], b"")
            self.asked.append(peer)
            await self.script(peer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


async def fleet(*engines: Engine, health: HealthSpec = QUICK) -> list[FleetSpec]:
    for engine in engines:
        await engine.start()
    specs = tuple(EngineSpec(number, engine.url, kind="vllm") for number, engine in enumerate(engines))
    return [FleetSpec(None, (), True, specs, "least_load", {}, health)]


def test_h30_an_engine_whose_probes_get_no_answer_while_it_streams_is_not_dead() -> None:
    async def test() -> None:
        finish = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await finish.wait()
            await peer.send(event(FINISH), LAST)

        engine = Probed(script, probe_status="silence")
        async with running(engine, fleets=await fleet(engine)) as gateway, told(gateway.run_dir) as heard:
            stream = asyncio.get_running_loop().create_task(ask(gateway.port, post()))
            await until(lambda: engine.probes > 4 * QUICK.failures)
            await until(lambda: bool(heard.engines))
            assert heard.engines[0]["state"] == "good"
            finish.set()
            assert (await stream).is_whole

    run(test())


@pytest.mark.parametrize("probes", ["silence", "503 Service Unavailable", "500 Internal Server Error"])
def test_h30_the_only_engine_is_asked_however_its_probes_fail(probes: str) -> None:
    async def test() -> None:
        engine = Probed(streams(TOKEN, FINISH), probe_status=probes)
        async with running(engine, fleets=await fleet(engine)) as gateway, told(gateway.run_dir) as heard:
            await until(lambda: bool(heard.engines) and heard.engines[0]["state"] == "gone")
            assert not heard.engines[0]["up"]  # told as it is, and yet asked
            for _ in range(20):
                assert (await ask(gateway.port, post())).status == 200

    run(test())


def test_h30_one_whose_probes_fail_is_not_asked_while_another_is_good_and_is_again_when_they_do_not() -> None:
    async def test() -> None:
        bad, good = Probed(streams(FINISH), probe_status="503 Loading"), Engine(streams(FINISH))
        fleets = await fleet(bad, good)
        async with running(bad, good, fleets=fleets) as gateway, told(gateway.run_dir) as heard:
            await until(lambda: bool(heard.engines) and heard.engines[0]["state"] == "gone")
            seen = len(bad.asked)
            for _ in range(20):
                assert (await ask(gateway.port, post())).status == 200
            assert len(bad.asked) == seen and len(good.asked) == 20
            bad.probe_status = "200 OK"

            async def served_again() -> None:
                while len(bad.asked) == seen:
                    assert (await ask(gateway.port, post())).status == 200

            await asyncio.wait_for(served_again(), 30)

    run(test())


def test_h30_the_gateways_own_health_needs_no_idle_worker_and_one_engine_that_is_there() -> None:
    async def test() -> None:
        finish = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await finish.wait()
            await peer.send(event(FINISH), LAST)

        engine, absent = Engine(script), Engine(script)
        fleets = await fleet(engine, absent)
        await absent.stop()
        async with running(engine, fleets=fleets) as gateway:
            many = [asyncio.get_running_loop().create_task(ask(gateway.port, post(), 60)) for _ in range(200)]
            await until(lambda: len(engine.asked) == 200, 30)
            health = await at_once(ask(gateway.port, GET, 30) for _ in range(20))
            assert [one.status for one in health] == [200] * 20
            finish.set()
            assert all(one.is_whole for one in await asyncio.gather(*many))

    run(test())


def test_h30_what_is_thought_of_an_engine_is_a_series_each() -> None:
    engine = Known(EngineSpec(0, "http://e"))
    counts: dict[tuple[str, ...], int] = {}
    gauges: dict[tuple[str, ...], float] = {}
    for _ in range(HealthSpec().failures):
        engine.failed("no connection")
    engine_series([engine], counts, gauges)
    assert gauges["engine_up", "http://e"] == 0.0
    assert {key[2]: n for key, n in gauges.items() if key[0] == "engine_state"} == {
        "new": 0, "good": 0, "gone": 1, "ejected": 0, "trial": 0,
    }  # fmt: skip
    assert counts == {("left_out", "http://e", "connect"): 1}
