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
from tests.analysis.trials import ranked, records

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
        assert "SLOWER" in row and "WITHHELD" in row
        page = await tab.ask("document.querySelector('main').innerText")
        for said in ("observed only, not comparable", "admitted", "dispatch lag", "floor", "up"):
            assert said in page
        # Touch and print have no hovering, so reasons are text; and a table says each once.
        assert row.count("WITHHELD") == 2 and "no interval" in row
        for once in ("cache parity failed", "1 windows in which both arms have one", "nothing of the kind"):
            assert page.count(once) == 1, once
        assert page.count("about 553 are needed") == 2  # one in each table that shows the label
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


@pytest.mark.parametrize("width", [1280, 800])
def test_what_is_claimed_of_candidates_what_arms_cost_and_what_limits_them_is_shown(width: int) -> None:
    """Each panel by its cells, so that a figure in the wrong column is seen."""
    ranking = {**rankings.ranking(), **rankings.judged()}
    real = ranked(records(1100))
    ranking |= {key: real[key] for key in ("beaten", "discoveries")}
    for ours, theirs in zip(ranking["candidates"], real["candidates"], strict=True):
        ours |= {key: theirs[key] for key in ("rates", "percentiles", "diffs")}
    cut_short = {
        "control": "stop",
        "candidate": "length",
        "answers": 3,
        "share": 0.03,
        "floor": 0.01,
        "excess": 0.02,
    }
    ranking["candidates"][0]["diffs"]["finish_reasons"].append(cut_short)
    ranking["candidates"][0]["quality"] = {
        "requests": 40, "control_passed": 0.9, "candidate_passed": 0.85, "neither": 4, "label": "UNDECIDED",
        "awaited": True, "unmarked": 3,
    }  # fmt: skip
    ranking["checks"][2]["mend"] = "give both arms the same room"

    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.querySelector('[data-panel=why]')")

        async def cells(panel: str, *holding: str) -> list[str]:
            rows = f"[...document.querySelectorAll('[data-panel={panel}] tbody tr')]"
            told = await tab.ask(f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))")
            return next(row for row in told if all(any(one in cell for cell in row) for one in holding))

        failed = await cells("rates", "fp8-again", "failed")
        assert failed[2:4] == ["0.0 %", "0.0 %"] and failed[4].startswith("+0.0\n") and failed[5] == "no more"
        slow = await cells("rates", "spec-ngram", "TTFT beyond")
        assert slow[3] == "100.0 %" and slow[5] == "more"
        band = await cells("diffs", "fp8-again", "exact match, 17-64 tokens")
        assert band[2:4] == ["100.0 %", "100.0 %"] and band[4].startswith("+0.0\n") and "…" in band[4]
        assert (await cells("diffs", "ended length for stop (3)"))[2:] == ["3.0 %", "1.0 %", "+2.01"]
        quick = await cells("percentiles", "fp8-kv", "TPOT")
        assert quick[2].strip() == "1\u202f000" and all("−2" in cell and "…" in cell for cell in quick[3:])
        assert (await cells("golden", "fp8-kv"))[1:] == [
            "40",
            "90.0 %",
            "85.0 %",
            "undecided; of 3 more there is no word",
        ]
        note = await tab.ask("document.querySelector('[data-panel=together]').innerText")
        assert (
            "slow is beaten by quick, since window" in note
            and "over all candidates on one metric: TTFT" in note
        )
        arm, load, slo, *dear = await cells("cost", "same")
        level = ranking["cost"]["arms"]["same"]["curve"][0]
        per_million = level["per_million"]["input"]["value"]
        assert arm == "same\n1 GPU" and load.startswith("0.5×\n") and slo == "100.0 %\nmeets"
        assert float(dear[0].split()[0]) == pytest.approx(per_million, rel=0.01) and "…" in dear[0]
        assert float(dear[3].split()[0]) == pytest.approx(260.0, rel=0.2)  # 2 requests/s of 130 tokens
        page = await tab.ask("document.querySelector('main').innerText")
        for line in (*ranking["cost"]["said"], *ranking["cost"]["notes"]):
            assert line in page, line
        assert (
            "same bears at least" in page
            and await tab.ask("document.querySelectorAll('.curve g').length") == 3
        )
        why = await cells("why", "slow")
        assert why[1] == "room in the KV cache\n100% of the time\nmeasured" and "KV cache 99%" in why[3]
        assert "try --kv-cache-dtype fp8:" in why[2]
        assert "its metrics were not recorded" in (await cells("why", "same"))[2]
        assert "To mend it: give both arms the same room." in page
        assert await tab.ask("document.documentElement.scrollWidth") <= width
        assert tab.complaints == []

    _shown(look, ranking, width=width)


@pytest.mark.parametrize("reasons", [False, True])
def test_visible_text_is_shown_by_its_name_where_it_is_not_the_first_token(reasons: bool) -> None:
    ranking = rankings.ranking()
    real = ranked(records(1100))
    for ours, theirs in zip(ranking["candidates"], real["candidates"], strict=True):
        ours["percentiles"] = {**theirs["percentiles"], "visible": theirs["percentiles"]["ttft"]}
        ours["rates"] = {
            **theirs["rates"],
            "slow_visible": {**theirs["rates"]["slow_ttft"], "beyond_ms": 632.0},
        }
        first = ours["verdicts"]["ttft"] = {**ours["verdicts"]["ttft"], "units": 20}
        ours["verdicts"]["visible"] = {**first, "ratio": 1.5} if reasons else first

    async def look(tab: Tab, admin: Admin) -> None:
        await tab.until("document.querySelector('[data-panel=percentiles]')")
        page = await tab.ask("document.querySelector('main').innerText")
        assert "undefined" not in page and tab.complaints == []
        assert ("visible text beyond 632 ms" in page) == reasons
        heads = await tab.ask("[...document.querySelectorAll('th')].map((head) => head.textContent)")
        assert ("Visible text vs control" in heads) == ("Visible text" in heads) == reasons
        rows = await tab.ask("document.querySelector('[data-panel=percentiles]').innerText")
        assert ("visible text" in rows) == reasons
        assert await tab.ask("document.documentElement.scrollWidth") <= 1280

    _shown(look, ranking)


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
