"""With a whole gateway in front: copies cost users nothing of their limits, and production's load is told."""

import asyncio

from gateway.spec import EngineSpec, FleetSpec, RoomSpec, SamplingSpec
from mirror.spec import ArmSpec
from tests.admission.staging import key, spec
from tests.failures.shadowed import PATH, chat, connections
from tests.mirror.scripted import Request, engine, tokens
from tests.mirror.staging import experiment, shadow
from tests.support import FINISH, TOKEN, Engine, ask, post, running, streams, until
from tests.support_shared import run

ALL = [SamplingSpec("fp8-kv", None, 1.0, b"salt")]


def test_a_user_gets_all_of_a_limit_however_often_each_request_is_copied() -> None:
    """Eight may be asked, and eight are answered, while three times as many go to each of two arms."""

    async def test() -> None:
        limited = spec(
            keys=(key("anonymous", 0, requests_per_s=0.0001, requests_burst=8),), rooms=(RoomSpec(None),)
        )
        async with engine(tokens) as control, engine(tokens) as other:
            arms = ArmSpec("control", control.url, "vllm"), ArmSpec("c1", other.url, "vllm")
            async with running(Engine(streams(TOKEN, FINISH)), experiments=ALL, admission=limited) as gateway:
                told = experiment(*arms, rate=3.0, salt=b"s", max_inflight=500)
                async with shadow(gateway.run_dir, told) as stage:
                    await until(lambda: connections(str(gateway.run_dir / "lane.sock")) > 0, 30)
                    headers = ("Authorization: Bearer sl-anonymous",)
                    statuses = [
                        (await ask(gateway.port, post(chat(n), PATH, *headers))).status for n in range(9)
                    ]
                    await until(lambda: len(stage.analysis.of("pair")) == 24, 30)
                    await stage.analysis.close()
            assert statuses == [200] * 8 + [429]
            assert len(control.requests) == len(other.requests) == 24

    run(test())


def test_the_control_that_gets_what_one_engine_gets_is_seen_to_be_as_loaded() -> None:
    """Two requests are always under way at production, for as long as at the control: both carry two.

    Of one slice that need not be seen: a worker's last second is told in the next one, or two of them are,
    where it has much else to do.  Of all of them together it is, sooner or later.
    """

    async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        await tokens(request, writer)

    async def test() -> None:
        async with engine(slow) as production, engine(slow) as control:
            told = experiment(ArmSpec("control", control.url), max_inflight=500)
            fleet = FleetSpec(None, (), True, (EngineSpec(0, production.url, kind="vllm"),), "least_load")
            async with running(fleets=(fleet,), experiments=ALL) as gateway:  # noqa: SIM117
                async with shadow(gateway.run_dir, told) as stage:
                    await until(lambda: connections(str(gateway.run_dir / "lane.sock")) > 0, 30)

                    def is_seen() -> bool:
                        told = [load for load in stage.analysis.of("load") if load["production"] > 1]
                        if len(told) < 2:
                            return False
                        production = sum(load["production"] * load["span_s"] for load in told)
                        control = sum(load["arms"]["control"] * load["span_s"] for load in told)
                        return bool(abs(control / production - 1) < 0.2)

                    async def client(first: int) -> None:
                        for n in range(first, 10_000, 2):
                            if is_seen():
                                return
                            assert (await ask(gateway.port, post(chat(n), PATH))).status == 200

                    async with asyncio.timeout(90):
                        await asyncio.gather(client(0), client(1))
                    await stage.analysis.close()

    run(test())
