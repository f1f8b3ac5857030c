"""The whole thing as it is run, in front of emulated engines; and processes that die."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from emulator.params import EngineParams
from emulator.server import start
from tests.procfs import children

ROOT = Path(__file__).resolve().parents[2]
FAST = {"base_ms": 1.0, "ms_per_prefill_token": 0.001, "ms_per_seq": 0.01, "default_temperature": 0.0}


@dataclass
class Whole:
    """A running `shadowlane serve` in front of emulated engines."""

    url: str
    admin: str
    pid: int

    def child(self, what: str) -> int | None:
        """The pid of a child process, by its hidden subcommand."""
        return next((pid for pid, words in children(self.pid) if what in words), None)


@asynccontextmanager
async def serving(folder: Path, http: aiohttp.ClientSession) -> AsyncIterator[Whole]:
    async with AsyncExitStack() as engines:
        urls = []
        for seed in range(4):
            running = await start(EngineParams(model="m", seed=seed, model_seed=1, **FAST), "127.0.0.1", 0)  # type: ignore[arg-type]
            engines.push_async_callback(running.close)
            urls.append(running.url)
        argv = [sys.executable, "-P", "-m", "gateway.cli", "serve", "--listen", "127.0.0.1:0"]
        argv += ["--admin", "127.0.0.1:0", "--state-dir", str(folder / "state"), "--sample-rate", "1"]
        argv += [
            "--engine",
            urls[0],
            "--engine",
            urls[1],
            "--control",
            urls[2],
            "--candidate",
            f"c={urls[3]}",
        ]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (folder / "err").open("wb") as err:
            process = await asyncio.create_subprocess_exec(*argv, env=env, stdout=subprocess.PIPE, stderr=err)
        try:
            assert process.stdout is not None
            said: dict[str, str] = {}
            while not {"listening", "admin"} <= said.keys():
                line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
                assert line, (folder / "err").read_text()
                for word in ("listening", "admin"):
                    if word in line:
                        said[word] = "http" + line.split("http", 1)[1].split()[0].rstrip("/")
            whole = Whole(said["listening"], said["admin"], process.pid)
            await settled(http, whole)
            yield whole
        finally:
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0


async def fetched(http: aiohttp.ClientSession, url: str) -> Any:
    try:
        async with http.get(url) as answer:
            return await answer.json(content_type=None) if answer.status == 200 else None
    except (aiohttp.ClientError, OSError):
        return None


async def settled(http: aiohttp.ClientSession, whole: Whole) -> None:
    async with asyncio.timeout(30):
        while await fetched(http, whole.admin + "/readyz") is None:
            await asyncio.sleep(0.1)


async def chat(http: aiohttp.ClientSession, whole: Whole, number: int) -> bool:
    """One streamed request; whether its answer was whole."""
    body = {
        "model": "m",
        "stream": True,
        "max_tokens": 8,
        "messages": [{"role": "user", "content": f"q{number}"}],
    }
    async with http.post(whole.url + "/v1/chat/completions", json=body) as answer:
        text = await answer.text()
        return answer.status == 200 and text.endswith("data: [DONE]\n\n")


async def completed(http: aiohttp.ClientSession, whole: Whole) -> float:
    """How many requests the metrics say were answered whole."""
    async with http.get(whole.admin + "/metrics") as answer:
        lines = (await answer.text()).splitlines()
    served = [line for line in lines if line.startswith("shadowlane_requests_total{")]
    return sum(float(line.split()[-1]) for line in served if 'outcome="complete"' in line)


@pytest.mark.parametrize("victim", ["_shadow", "_analysis"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_losing_the_shadow_or_the_analysis_process_fails_no_request(
    tmp_path: Path, victim: str, how: signal.Signals
) -> None:
    async def test() -> None:
        async with aiohttp.ClientSession() as http, serving(tmp_path, http) as whole:
            whole_answers = 0
            number = 0
            lost = whole.child(victim)
            assert lost is not None
            for turn in range(12):
                if turn == 3:
                    os.kill(lost, how)
                answers = await asyncio.gather(*(chat(http, whole, number + n) for n in range(8)))
                number += 8
                whole_answers += sum(answers)
                await asyncio.sleep(0.05)
            assert whole_answers == number
            if how is signal.SIGSTOP:
                os.kill(lost, signal.SIGCONT)
                return
            async with asyncio.timeout(30):
                while whole.child(victim) in (None, lost):
                    await asyncio.sleep(0.1)

    uvloop.run(test())


def test_copies_become_pairs_and_the_books_close(tmp_path: Path) -> None:
    async def test() -> None:
        async with aiohttp.ClientSession() as http, serving(tmp_path, http) as whole:
            for number in range(40):
                assert await chat(http, whole, number)
            async with asyncio.timeout(30):
                while True:
                    ranking = await fetched(http, whole.admin + "/api/experiments/trial") or {}
                    books = ranking.get("books", {})
                    dropped = sum(books.get("dropped", {}).values())
                    if books.get("admitted") == 40 and books["admitted"] == books["paired"] + dropped:
                        break
                    await asyncio.sleep(0.2)
            assert books["paired"] > 5 and set(books["dropped"]) <= {"calibration", "lane_down"}
            assert ranking["pairs"] > 0 or ranking["phase"] == "calibration"

            async with asyncio.timeout(30):
                while await completed(http, whole) < 40:
                    await asyncio.sleep(0.2)  # exported once a second
            assert await completed(http, whole) == 40
            async with http.get(whole.url + "/v1/models") as answer:
                listed = json.loads(await answer.text())
            assert [one["id"] for one in listed["data"]] == ["m"]

    uvloop.run(test())


def test_a_killed_worker_is_started_again_and_its_load_forgotten(tmp_path: Path) -> None:
    async def test() -> None:
        async with aiohttp.ClientSession() as http, serving(tmp_path, http) as whole:
            assert await chat(http, whole, 1)
            lost = whole.child("_worker")
            assert lost is not None
            os.kill(lost, signal.SIGKILL)
            async with asyncio.timeout(30):
                while whole.child("_worker") in (None, lost):
                    await asyncio.sleep(0.05)
            assert await chat(http, whole, 2)

    uvloop.run(test())
