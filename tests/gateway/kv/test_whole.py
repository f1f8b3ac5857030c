"""A whole gateway whose workers know by one process what engines hold; that process may die."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.gateway.kv.staging import FAST, emulated
from tests.gateway.kv.test_feed import PROMPT, ask
from tests.gateway.whole import Whole, serving, with_engines


async def publishers(whole: Whole) -> dict[str, dict[str, Any]]:
    """What the admin page says of the publishers, by engine."""
    said = (await whole.status())["kv_events"]
    return {one["engine"]: one["publishers"][0] for one in said.get("engines", ()) if one["publishers"]}


async def waited(whole: Whole, url: str, **wanted: Any) -> dict[str, Any]:
    """The publisher of an engine, once it is as wanted."""
    async with asyncio.timeout(90):
        while True:
            found = (await publishers(whole)).get(url)
            if found is not None and {key: found[key] for key in wanted} == wanted:
                return found
            await asyncio.sleep(0.1)


def test_what_is_known_is_shown_counted_and_known_again_after_the_process_that_reads_it_died(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [await emulated(stack), await emulated(stack, replace(FAST, kv_events_form="sglang"))]
        for running in engines:
            await ask(running, PROMPT)
        fleet = {"engines": [running.url for running in engines], "model": "emulated"}
        async with serving(tmp_path, {"fleets": [fleet], "workers": 2}) as whole:
            for running in engines:
                found = await waited(whole, running.url, state="EXACT", blocks=5)
                assert found["ignored"] == {} and found["why"] == ""
            process = whole.children()["_events"]
            os.kill(process, signal.SIGKILL)
            await ask(engines[0], [1, *PROMPT])
            await waited(whole, engines[0].url, state="EXACT", blocks=10)
            assert whole.children()["_events"] != process
            async with whole.http.get(whole.admin + "/metrics") as answer:
                lines = (await answer.text()).splitlines()
            name = f'shadowlane_kv_blocks{{engine="{engines[0].url}",rank="0"}}'
            assert f"{name} 10.0" in lines
            assert any(
                line.startswith("shadowlane_kv_events_total") and 'what="stored"' in line for line in lines
            )

    with_engines(test)


def test_engines_come_and_go_by_reloads_and_events_that_are_not_wanted_are_not_read(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        one, two = await emulated(stack), await emulated(stack)
        off = {"engines": [one.url], "model": "emulated", "kv_events": {"read": "off"}}
        async with serving(tmp_path, {"fleets": [off]}) as whole:
            assert "_events" not in whole.children()
            whole.write(fleets=[{"engines": [one.url], "model": "emulated"}])
            assert (await whole.reload())[0] == 200
            await waited(whole, one.url, state="EXACT")
            whole.write(fleets=[{"engines": [one.url, two.url], "model": "emulated"}])
            assert (await whole.reload())[0] == 200
            await waited(whole, two.url, state="EXACT")
            whole.write(fleets=[{"engines": [two.url], "model": "emulated"}])
            assert (await whole.reload())[0] == 200
            async with asyncio.timeout(30):
                while set(await publishers(whole)) != {two.url}:
                    await asyncio.sleep(0.1)

    with_engines(test)
