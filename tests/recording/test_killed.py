"""The recording process killed, stopped, and asked for by the command line, in a gateway as it is run."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from tests.gateway.whole import ROOT, Whole, begin, serving, with_engines
from tests.recording.staging import answer, chat, rows
from tests.support import Engine, answers, until


def engine() -> Engine:
    return Engine(answers(*answer("one two", 20, 2)))


async def asked(whole: Whole, name: str, n: int) -> None:
    for at in range(n):
        headers = {"x-request-id": f"{name}{at}", "content-type": "application/json"}
        async with whole.http.post(
            whole.url + "/v1/chat/completions", data=chat(f"{name} {at} " * 100), headers=headers
        ) as got:
            assert got.status == 200 and b"[DONE]" in await got.read()


async def asked_until_written(whole: Whole, name: str, to: Path) -> None:
    """Ask for one conversation after the other until one of them is in the files: the lane stands."""
    async with asyncio.timeout(60):
        n = 0
        while not [one for one in ids(to) if one and one.startswith(name)]:
            n += 1
            await asked(whole, f"{name}-{n}-", 1)
            await asyncio.sleep(0.1)


def ids(folder: Path) -> list[str | None]:
    return [row.id for row in rows(folder)] if folder.exists() else []


def test_after_a_kill_the_file_reads_the_next_process_goes_on_and_no_request_noticed(tmp_path: Path) -> None:
    async def scene(stack: AsyncExitStack) -> None:
        one, to = engine(), tmp_path / "recordings"
        await begin(stack, one)
        async with serving(
            tmp_path, {"fleets": [{"engines": [one.url]}], "record": {"to": str(to)}}
        ) as whole:
            await until(lambda: "_recording" in whole.children(), 30)
            await asked_until_written(whole, "first", to)
            await asked(whole, "before", 30)
            await until(lambda: len([one for one in ids(to) if one and one.startswith("before")]) == 30, 30)
            old = whole.children()["_recording"]
            os.kill(old, signal.SIGKILL)
            await asked(whole, "while", 5)
            await until(lambda: whole.children().get("_recording", old) != old, 30)
            await asked_until_written(whole, "after", to)
            assert len([one for one in ids(to) if one and one.startswith("before")]) == 30

    with_engines(scene)


def test_a_recorder_that_is_stopped_delays_no_request(tmp_path: Path) -> None:
    async def scene(stack: AsyncExitStack) -> None:
        one, to = engine(), tmp_path / "recordings"
        await begin(stack, one)
        async with serving(
            tmp_path, {"fleets": [{"engines": [one.url]}], "record": {"to": str(to)}}
        ) as whole:
            await until(lambda: "_recording" in whole.children(), 30)
            await asked_until_written(whole, "first", to)
            os.kill(whole.children()["_recording"], signal.SIGSTOP)
            await asyncio.wait_for(asked(whole, "meanwhile", 50), 60)
            os.kill(whole.children()["_recording"], signal.SIGCONT)
            await until(lambda: "meanwhile49" in ids(to), 30)

    with_engines(scene)


def test_the_command_line_asks_for_it(tmp_path: Path) -> None:
    async def scene(stack: AsyncExitStack) -> None:
        one, to = engine(), tmp_path / "recordings"
        await begin(stack, one)
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-P", "-m", "gateway.cli", "record", "--to", str(to), "--engine", one.url],
            *["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state-dir", str(tmp_path / "state")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            said = b""
            while b"recording" not in said:
                line = await asyncio.wait_for(process.stdout.readline(), 60)
                assert line
                said += line
            await until(lambda: list(to.glob("*.json")) != [], 30)
            (told,) = to.glob("*.json")
            assert json.loads(told.read_text())["text"] is False
        finally:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 60) == 0

    with_engines(scene)
