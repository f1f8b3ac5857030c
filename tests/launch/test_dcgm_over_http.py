"""An arm's GPUs are read from a DCGM exporter over HTTP; one that is dead or no exporter is told once."""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgpack
import structlog
from structlog.testing import capture_logs

from analysis.course import Course
from gateway.launch.places import Places
from gateway.launch.reading import Hardware, NoHardware
from gateway.launch.readings import Readings
from gateway.launch.spec import WatchedSpec
from tests.analysis.trials import SPEC
from tests.connections import unheard
from tests.mirror.scripted import engine, hang
from tests.support import Engine, answers, until


def gauge(name: str, value: object, kind: str = "gauge") -> str:
    """As the exporter writes it: a help, a type, and a line for each GPU with all of its labels."""
    name = f"DCGM_FI_DEV_{name}"
    labels = 'pci_bus_id="00000000:19:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="g3"'
    lines = [f'{name}{{gpu="{n}",UUID="GPU-{n}",{labels},DCGM_FI_DRIVER="550"}} {value}' for n in (0, 1)]
    return "\n".join([f"# HELP {name} What it is.", f"# TYPE {name} {kind}", *lines, ""])


def page(xid: int, energy_mj: int = 319_159_391) -> bytes:
    return "".join(
        (
            gauge("SM_CLOCK", 1980),
            gauge("MEM_CLOCK", 2619),
            gauge("GPU_TEMP", 51),
            gauge("POWER_USAGE", 412.5),
            gauge("TOTAL_ENERGY_CONSUMPTION", energy_mj, "counter"),
            gauge("GPU_UTIL", 87),
            gauge("MEM_COPY_UTIL", 40),
            gauge("FB_FREE", 300),
            gauge("FB_USED", 100),
            gauge("XID_ERRORS", xid),
            gauge("CLOCKS_EVENT_REASONS", 0x4 | 0x40),
        )
    ).encode()


def none() -> Hardware:
    raise NoHardware("NVML: none here")


class Scene:
    """Arms whose GPUs are read every few milliseconds, and what was offered of each."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def offer(self, frame: bytes) -> bool:
        self.frames.append(frame)
        return True

    def of(self, arm: str) -> list[dict[str, Any]]:
        found = [msgpack.unpackb(frame) for frame in self.frames]
        return [body for kind, body in found if kind == "gpu" and body["arm"] == arm]

    async def read(
        self, stack: AsyncExitStack, watched: Collection[WatchedSpec], most_wait_s: float = 5.0
    ) -> None:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        readings = Readings(Places(none), http, self.offer, structlog.get_logger())
        readings.watched, readings.every_s, readings.most_wait_s = tuple(watched), 0.005, most_wait_s
        task = asyncio.get_running_loop().create_task(readings.follow())

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        stack.push_async_callback(end)


async def exporter(stack: AsyncExitStack, text: bytes, status: str = "200 OK") -> Engine:
    engine = Engine(answers(), metrics=text, probe_status=status)
    await engine.start()
    stack.push_async_callback(engine.stop)
    return engine


def test_each_arms_gpus_are_read_from_its_exporter_and_taken_by_the_analysis(tmp_path: Path) -> None:
    scene = Scene()

    async def run() -> None:
        async with AsyncExitStack() as stack:
            engine = await exporter(stack, page(xid=79))
            arms = (
                WatchedSpec("trial", "control", ("0",), engine.url),
                WatchedSpec("trial", "quick", ("GPU-1", "GPU-0"), engine.url),
            )
            await scene.read(stack, arms)
            await until(lambda: len(scene.of("quick")) >= 2)
            engine.metrics = page(xid=13, energy_mj=319_200_000)
            await until(lambda: any(gpu["xid"] for body in scene.of("quick") for gpu in body["gpus"]))
            seen = len(scene.of("quick"))
            await until(lambda: len(scene.of("quick")) >= seen + 2)

    asyncio.run(run())
    first = scene.of("control")[0]
    assert (first["experiment"], first["source"]) == ("trial", "dcgm")
    assert first["gpus"] == [
        {
            "uuid": "GPU-0",
            "index": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "utilisation": 0.87,
            "memory_busy": 0.4,
            "memory_used_bytes": 100 << 20,
            "memory_total_bytes": 400 << 20,
            "power_w": 412.5,
            "energy_mj": 319_159_391,
            "sm_clock_mhz": 1980,
            "memory_clock_mhz": 2619,
            "temperature_c": 51,
            "throttling": ["power_cap", "hw_thermal"],
            "xid": [],  # it stood there before anybody looked
        }
    ]
    assert [gpu["uuid"] for gpu in scene.of("quick")[0]["gpus"]] == ["GPU-0", "GPU-1"]
    told = [gpu["xid"] for arm in ("control", "quick") for body in scene.of(arm) for gpu in body["gpus"]]
    assert [xid for xid in told if xid] == [[13], [13]]  # of each GPU once, though two arms have one of them
    course = Course(SPEC, tmp_path)
    course.load()
    for body in scene.of("control") + scene.of("quick"):
        course.gpus({**body, "experiment": SPEC.name})
    course.close()


def test_one_that_is_dead_or_is_no_exporter_is_told_once_and_holds_nobody_up() -> None:
    scene = Scene()

    async def run() -> None:
        async with AsyncExitStack() as stack:
            dead = stack.enter_context(unheard())
            pages = {
                "good": await exporter(stack, page(0)),
                "garbage": await exporter(stack, b"this is { no page\n"),
                "bytes": await exporter(stack, bytes(range(256)) * 50),
                "closed": await exporter(stack, b"", "403 Forbidden"),
                "other": await exporter(stack, b"# TYPE up gauge\nup 1\n"),
            }
            urls = {"dead": f"http://127.0.0.1:{dead}", **{arm: engine.url for arm, engine in pages.items()}}
            await scene.read(stack, [WatchedSpec("trial", arm, ("0",), url) for arm, url in urls.items()])
            await until(lambda: len(scene.of("good")) >= 3)
            pages["closed"].metrics, pages["closed"].probe_status = page(0), "200 OK"
            await until(lambda: len(scene.of("closed")) >= 1)
            pages["closed"].probe_status = "500 Down"
            seen = len(scene.of("good"))
            await until(lambda: len(scene.of("good")) >= seen + 3)

    with capture_logs() as logs:
        asyncio.run(run())
    told = [log["arm"] for log in logs if log["event"] == "no readings of an arm's GPUs"]
    assert sorted(told) == ["trial/bytes", "trial/closed", "trial/closed", "trial/dead", "trial/garbage"]
    assert not any(scene.of(arm) for arm in ("dead", "garbage", "bytes", "other"))  # nothing is made up


def test_one_that_never_answers_holds_no_other_arms_readings_up() -> None:
    scene = Scene()

    async def run() -> None:
        async with AsyncExitStack() as stack:
            silent = await stack.enter_async_context(engine(hang))
            good = await exporter(stack, page(0))
            arms = [
                WatchedSpec("trial", "silent", ("0",), silent.url),
                WatchedSpec("trial", "good", ("0",), good.url),
            ]
            await scene.read(stack, arms, most_wait_s=600.0)
            await until(lambda: len(silent.requests) == 1)
            seen = len(scene.of("good"))
            await until(lambda: len(scene.of("good")) >= seen + 3)
            assert len(silent.requests) == 1  # and it is not asked again meanwhile

    asyncio.run(run())
