"""The live page in a real browser: what it shows in each state, and that it complains of nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from analysis.web.app import Admin, start_admin
from tests.analysis.shell import chromium, rankings
from tests.analysis.shell.chromium import Tab
from tests.analysis.shell.frames import SPEC, analysis, books, pair, status
from tests.analysis.shell.source import Still

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.found() is None, reason="no Chromium on this machine"),
]


def _shown(
    look: Callable[[Tab, Admin], Awaitable[None]],
    ranking: dict[str, Any] | None,
    state: dict[str, Any] | None = None,
    width: int = 1280,
) -> None:
    async def run() -> None:
        admin = await start_admin(Still(state or rankings.status(), ranking), "127.0.0.1", 0)
        try:
            async with chromium.tab() as tab:
                await tab.open(f"http://127.0.0.1:{admin.port}/", width=width)
                await tab.until("document.querySelector('#fleets table')")
                await look(tab, admin)
        finally:
            await admin.close()

    asyncio.run(run())


@pytest.mark.parametrize("width", [1280, 800])
def test_every_candidate_has_a_row_with_its_verdicts(width: int) -> None:
    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.querySelectorAll('[data-candidate]').length === 3")
        await tab.until("document.querySelectorAll('.uplot canvas').length === 2")
        row = await tab.ask("document.querySelector('[data-candidate=\"spec-ngram\"]').innerText")
        assert "SLOWER" in row and "WITHHELD" in row and "cache parity failed" in row
        page = await tab.ask("document.querySelector('main').innerText")
        for said in ("observed only, not comparable", "admitted", "dispatch lag", "floor", "up"):
            assert said in page
        assert await tab.ask("document.documentElement.scrollWidth") <= width
        assert tab.complaints == []

    _shown(look, rankings.ranking(withheld="cache parity failed"), width=width)


@pytest.mark.parametrize("width", [1280, 800])
def test_load_gpus_and_the_forced_phase_are_shown_where_they_are_known(width: int) -> None:
    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.body.innerText.includes('At equal content')")
        page = await tab.ask("document.querySelector('main').innerText")
        for said in (
            "one production engine", "0.99", "0.50 times on average", "NVIDIA H100", "71 %", "63.1", "412",
            "20.50", "1755 / 1410", "power_cap 12 %", "79", "300 of 300 pairs", "warm up 17",
            "every arm scores", "0.0123", "+0.0098 … +0.0140 beyond the floor", "0.0004",
        ):  # fmt: skip
            assert said in page, said
        row = "[...document.querySelectorAll('tr')].find((row) => row.innerText.includes('GPU-00aa'))"
        assert (await tab.ask(f"{row}.innerText")).count("–") >= 6
        assert await tab.ask("document.documentElement.scrollWidth") <= width
        assert tab.complaints == []

    _shown(look, {**rankings.ranking(), **rankings.conditions()}, width=width)


def test_that_brakes_paused_an_experiment_is_said_after_it_goes_on() -> None:
    state = rankings.status()
    state["experiments"][0]["trips"] = {"memory": 2, "arm_errors": 0}

    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.body.innerText.includes('Paused by itself since the start: memory 2.')")
        assert tab.complaints == []

    _shown(look, rankings.ranking(), state)


def test_what_an_engine_or_a_name_says_never_becomes_markup() -> None:
    state, ranking = rankings.status(), rankings.ranking()
    evil = "<img src=x onerror=document.title='owned'>"
    state["processes"][1]["engines"][0]["error"] = ranking["candidates"][0]["name"] = ranking["summary"] = (
        evil
    )

    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.querySelectorAll('[data-candidate]').length === 3")
        assert await tab.ask("document.images.length") == 0
        assert await tab.ask("document.title") == "Shadowlane"
        assert tab.complaints == []

    _shown(look, ranking, state)


def test_without_an_experiment_the_page_says_how_to_make_one() -> None:
    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.body.innerText.includes('No experiment is configured')")
        assert tab.complaints == []

    _shown(look, None, rankings.status(experiments=0))


def test_a_lost_connection_is_announced_and_found_again() -> None:
    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.querySelectorAll('[data-candidate]').length === 3")
        await admin.close()
        await tab.until("!document.getElementById('banner').hidden")
        assert await tab.ask("document.getElementById('link').textContent") == "disconnected"
        again = await start_admin(Still(rankings.status(), rankings.ranking()), "127.0.0.1", admin.port)
        try:
            await tab.until("document.getElementById('banner').hidden")
        finally:
            await again.close()

    _shown(look, rankings.ranking())


def test_the_page_follows_a_running_experiment(tmp_path: Any) -> None:
    async def run() -> None:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow, chromium.tab() as tab:
            await tab.open(running.url + "/")
            await tab.until("document.body.innerText.includes('No pair has arrived yet')")
            await shadow.send(status(), *(pair(n, "calibration") for n in range(10)), books(10, 10))
            await tab.until("document.body.innerText.includes('calibration')")
            await shadow.send(*(pair(n, "calibration") for n in range(10, 60)))
            await shadow.send(*(pair(n, "live") for n in range(60, 400)), books(400, 400))
            await tab.until("document.querySelector('[data-candidate=\"quick\"] .badge.FASTER')")
            assert tab.complaints == []

    asyncio.run(run())
