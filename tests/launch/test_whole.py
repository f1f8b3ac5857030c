"""Engines that a whole gateway starts: copies reach them once all serve; what goes wrong is said and ends."""

import json
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from tests.gateway.whole import begin, serving, with_engines
from tests.launch.staging import EMULATOR, are, arm, ask_until, experiment, gone, launched, settings, until
from tests.support import FINISH, TOKEN, Engine, streams


def production() -> Engine:
    return Engine(streams(TOKEN, FINISH))


def test_copies_wait_until_all_arms_serve_and_then_become_pairs(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        slow = arm(f"{EMULATOR} --start-delay-s 3")
        async with serving(tmp_path, settings(engine, experiment(arm(), slow))) as whole:
            seen = await ask_until(whole, lambda books: books.get("paired", 0) >= 3)
            waited = seen["dropped"].get("arm_not_ready", 0)
            assert seen["admitted"] >= seen["paired"] + sum(seen["dropped"].values()), waited
            told = await launched(whole)
            assert {one["kind"] for one in told.values()} == {"vllm"}
            assert {(one["starts"], one["deaths"]) for one in told.values()} == {(1, 0)}
            metric = 'shadowlane_launched_engine{arm="c0",experiment="t",state="ready"}'
            assert await whole.metric(metric) == 1
            there = [one["pid"] for one in told.values()]
        await gone(*there)

    with_engines(test)


def test_a_command_that_exits_is_tried_again_then_given_up_with_its_last_words_and_holds_no_other_up(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        bad = arm(["sh", "-c", "echo no such option {port}; exit 2"], restarts=1)
        async with serving(tmp_path, settings(engine, experiment(arm(), arm(), bad))) as whole:
            told = await until(whole, are(control="ready", c0="ready", c1="failed"))
            assert (told["c1"]["starts"], told["c1"]["deaths"]) == (2, 2)
            assert told["c1"]["why"] == "it exited with status 2"
            port = told["c1"]["url"].rpartition(":")[2]
            assert told["c1"]["lines"] == [f"no such option {port}"]
            assert '"last_lines": ["no such option' in whole.log
            await ask_until(whole, lambda books: books.get("paired", 0) >= 2)

    with_engines(test)


def test_one_that_never_comes_to_serve_is_ended_and_said_to(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        deaf = arm([sys.executable, "-c", "import time; '{port}'; time.sleep(1000)"], ready_s=2, restarts=0)
        async with serving(tmp_path, settings(engine, experiment(arm(), deaf))) as whole:
            told = await until(whole, lambda seen: seen["c0"]["state"] == "failed")
            assert told["c0"]["why"] == "not healthy within 2 s"
            started = [line for line in whole.log.splitlines() if "engine started" in line]
            (pid,) = (line["pid"] for line in map(json.loads, started) if line["arm"] == "c0")
            await gone(pid)

    with_engines(test)


def test_what_cannot_be_run_at_all_is_said_to(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        absent = arm("/no/such/engine --port {port}", restarts=0)
        async with serving(tmp_path, settings(engine, experiment(absent, arm()))) as whole:
            told = await until(whole, are(control="failed", c0="ready"))
            assert told["control"]["why"] == "it cannot be started: No such file or directory"
            seen = await ask_until(whole, lambda books: books.get("dropped", {}).get("arm_not_ready"))
            assert seen["paired"] == 0  # without a control nothing is compared

    with_engines(test)


def test_an_engine_that_dies_while_copies_run_is_started_again_and_copies_wait_meanwhile(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        async with serving(tmp_path, settings(engine, experiment(arm(), arm()))) as whole:
            await ask_until(whole, lambda books: books.get("paired", 0) >= 1)
            before = (await launched(whole))["c0"]["pid"]
            os.kill(before, signal.SIGKILL)
            told = await until(whole, lambda seen: seen["c0"]["deaths"] == 1)
            assert told["c0"]["why"] in ("it was killed by SIGKILL", None)
            told = await until(whole, are(control="ready", c0="ready"))
            assert told["c0"]["pid"] != before and told["c0"]["starts"] == 2
            assert told["control"]["starts"] == 1
            paired = (await ask_until(whole, lambda books: True))["paired"]
            await ask_until(whole, lambda books: books["paired"] > paired)

    with_engines(test)


def test_a_port_that_is_taken_is_waited_for(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            clash = arm(port=port)
            stack.enter_context(taken)
            async with serving(tmp_path, settings(engine, experiment(arm(), clash))) as whole:
                told = await until(whole, are(control="ready", c0="waiting"))
                assert told["c0"]["why"] == f"port {port} is in use by another program"
                taken.close()
                await until(whole, are(control="ready", c0="ready"))

    with_engines(test)


def test_a_reload_starts_changes_and_ends_engines_and_leaves_the_others_alone(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        async with serving(tmp_path, settings(engine)) as whole:
            assert "_launch" not in whole.children()
            whole.write(experiments=[experiment(arm(), arm())])
            assert (await whole.reload())[0] == 200
            first = await until(whole, are(control="ready", c0="ready"))
            assert "_launch" in whole.children()

            other = arm(f"{EMULATOR} --slow 2")
            whole.write(experiments=[experiment(arm(), other, arm())])
            assert (await whole.reload())[0] == 200
            second = await until(whole, are(control="ready", c0="ready", c1="ready"))
            assert second["control"]["pid"] == first["control"]["pid"]
            assert second["c0"]["pid"] != first["c0"]["pid"]
            await gone(first["c0"]["pid"])
            async with whole.http.get(f"{whole.admin}/api/experiments/t") as answer:
                assert (await answer.json(content_type=None))["epoch"] == 2
            await ask_until(whole, lambda books: books.get("paired", 0) >= 1)

            whole.write(experiments=[])
            assert (await whole.reload())[0] == 200
            await gone(*(one["pid"] for one in second.values()))

    with_engines(test)


def test_engines_end_when_the_supervisor_or_the_launching_process_is_killed(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        async with serving(tmp_path, settings(engine, experiment(arm(), arm()))) as whole:
            first = await until(whole, are(control="ready", c0="ready"))
            os.kill(whole.children()["_launch"], signal.SIGKILL)
            await gone(*(one["pid"] for one in first.values()))
            second = await until(whole, are(control="ready", c0="ready"))
            assert not {one["pid"] for one in first.values()} & {one["pid"] for one in second.values()}
            processes = [*whole.children().values(), *(one["pid"] for one in second.values())]
            whole.kill(signal.SIGKILL)
            assert await whole.ended() == -signal.SIGKILL
            await gone(*processes)

    with_engines(test)


def test_without_gpus_it_is_said_once_and_who_wants_one_waits(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := production())
        wanting = {**arm(), "gpus": 1}
        async with serving(tmp_path, settings(engine, experiment(arm(), wanting))) as whole:
            told = await until(whole, are(control="ready", c0="waiting"))
            assert "no GPU can be had: NVML: " in told["c0"]["why"]
            assert (await whole.status())["launched"]["hardware"]["error"].startswith("NVML: ")
            assert whole.log.count("no GPUs to launch on or to read here") == 1

    with_engines(test)
