"""The live page in a real browser: engines that Shadowlane starts, and arms that take turns."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from analysis.web.app import start_admin
from tests.analysis.shell import chromium, rankings
from tests.analysis.shell.chromium import Tab
from tests.analysis.shell.source import Still

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.found() is None, reason="no Chromium on this machine"),
]
PAGE = "document.querySelector('main').innerText"


def shown(look: Callable[[Tab], Awaitable[None]], state: dict[str, Any], width: int = 1280) -> None:
    async def run() -> None:
        admin = await start_admin(Still({**rankings.status(), **state}, rankings.ranking()), "127.0.0.1", 0)
        try:
            async with chromium.tab() as tab:
                await tab.open(f"http://127.0.0.1:{admin.port}/", width=width)
                await tab.until("document.querySelectorAll('[data-candidate]').length === 3")
                await look(tab)
                assert await tab.ask("document.documentElement.scrollWidth") <= width
                assert tab.complaints == []
        finally:
            await admin.close()

    asyncio.run(run())


def row(arm: str) -> str:
    table = "[...document.querySelectorAll('caption')].find((c) => c.innerText.includes('Launched engines'))"
    rows = f"[...{table}.parentElement.querySelectorAll('tbody tr')]"
    return f"{rows}.find((row) => row.querySelector('th').innerText.startsWith('{arm}'))"


def shadow(**more: Any) -> list[dict[str, Any]]:
    state = rankings.status()["processes"]
    return [{**state[0], "experiments": [rankings.turns(**more)]}, *state[1:]]


@pytest.mark.parametrize("width", [1280, 800])
def test_each_launched_engine_has_a_row_with_what_it_does_where_and_its_last_words(width: int) -> None:
    async def look(tab: Tab) -> None:
        await tab.until(f"{row('control')}")
        control, failed = (
            await tab.ask(f"{row('control')}.innerText"),
            await tab.ask(f"{row('fp8-kv')}.innerText"),
        )
        for said in ("http://127.0.0.1:20000", "ready", "GPU-0"):
            assert said in control
        for said in (
            "failed",
            "it exited with status 2",
            "usage: engine <options>",
            "no such option --kv",
            "3",
        ):
            assert said in failed
        assert "no such option" not in control
        assert await tab.ask(f"{row('control')}.querySelector('.state.good') !== null")
        assert await tab.ask(f"{row('fp8-kv')}.querySelector('.state.bad') !== null")
        assert "copies wait until all are ready" in await tab.ask(PAGE)
        assert "Arms take turns" not in await tab.ask(PAGE)

    shown(look, {"launched": rankings.launched("ready", "failed")}, width)


def test_that_no_hardware_was_found_is_said_beside_the_engines() -> None:
    async def look(tab: Tab) -> None:
        await tab.until(f"{row('control')}")
        assert "NVML: no library" in await tab.ask(PAGE)
        assert "waiting" in await tab.ask(f"{row('control')}.innerText")

    shown(look, {"launched": rankings.launched("waiting", "waiting", hardware="NVML: no library")})


@pytest.mark.parametrize("width", [1280, 800])
def test_whose_turn_it_is_how_far_a_replay_is_and_who_did_not_come_are_shown(width: int) -> None:
    replay = {"turns": 36, "requests": 500, "pieces": 12, "left_out": {"failed": 7, "not_copyable": 0}}
    replay |= {"sends": 1000, "sent": 250, "late_ms": 4.25, "left_s": 600.0}
    troubles = {"fp8-kv": "given up: it exited with status 2"}

    async def look(tab: Tab) -> None:
        await tab.until("document.body.innerText.includes('Arms take turns')")
        page = await tab.ask(PAGE)
        for said in (
            "control has its turn; 12 blocks so far",
            "9 of 36 blocks",
            "requests sent, the latest of this block 4.25 ms after its instant, about 10 min left.",
            "Left out of the recording: failed 7.",
            "given up: it exited with status 2",
            "one at a time, each for its slot",
        ):
            assert said in page, said
        assert await tab.ask("document.querySelector('progress[aria-label=Replayed]').value") == 0.25

    state = {"launched": rankings.launched("ready", "resting", "yielding")}
    shown(look, {**state, "processes": shadow(replay=replay, troubles=troubles)}, width)


def test_a_replay_that_is_over_says_so_and_one_that_is_read_too() -> None:
    async def over(tab: Tab) -> None:
        await tab.until("document.body.innerText.includes('all is sent; 12 blocks so far')")

    async def begins(tab: Tab) -> None:
        await tab.until("document.body.innerText.includes('The recording is being read')")
        assert "the next arm is being brought" in await tab.ask(PAGE)

    shown(over, {"processes": shadow(over=True, standing=None)})
    shown(begins, {"processes": shadow(standing=None, replay={"turns": None})})
